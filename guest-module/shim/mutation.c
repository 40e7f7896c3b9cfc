// SPDX-License-Identifier: GPL-2.0
/* The parameter that breaks an invariant for a test; built with DD_MUTATIONS=1 only. */

#include "../../shim/mutation.c"
