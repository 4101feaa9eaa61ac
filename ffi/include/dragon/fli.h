/* For programs that were written for Dragon: fli.h of its core, over Umbra. */
#include "../umbra_dragon.h"
