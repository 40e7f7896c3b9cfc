// SPDX-License-Identifier: GPL-2.0-only
/* The host's generic netlink family; see ../../shim/genl.h. */

#define DD_FAMILY "dd_host"
#define DD_DO(x) x(1) x(3) x(5) x(6) x(8) x(9) x(11)
#define DD_DUMP(x) x(2) x(4) x(10)
#define DD_EVENT 7
/* The handlers lock what they change themselves. */
#define DD_PARALLEL true

#include "../../shim/genl.c"
