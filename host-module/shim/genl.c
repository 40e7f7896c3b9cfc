// SPDX-License-Identifier: GPL-2.0-only
/* The host's generic netlink family; see ../../shim/genl.h. */

#define DD_FAMILY "dd_host"
#define DD_DO(x) x(1) x(3) x(5) x(6)
#define DD_DUMP(x) x(2) x(4)
#define DD_EVENT 7

#include "../../shim/genl.c"
