// SPDX-License-Identifier: GPL-2.0-only
/* The generic netlink family of the guest module. Numbers are those of ddabi/src/genl.rs. */

#define DD_FAMILY "dd_guest"
#define DD_DO(x) x(1) x(3) x(4) x(5) x(6) x(7)
#define DD_DUMP(x) x(2)
#define DD_EVENT 8
#define DD_PARALLEL false

#include "../../shim/genl.c"
