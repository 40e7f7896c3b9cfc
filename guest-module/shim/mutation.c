// SPDX-License-Identifier: GPL-2.0
/* What a test breaks on purpose; built with DD_MUTATIONS=1 only. */

#include "../../shim/mutation.c"
