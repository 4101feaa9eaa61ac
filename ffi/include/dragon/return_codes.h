/* For programs that were written for Dragon: return_codes.h of its core, over Umbra. */
#include "../umbra_dragon.h"
