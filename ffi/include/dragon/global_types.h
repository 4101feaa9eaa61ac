/* For programs that were written for Dragon: global_types.h of its core, over Umbra. */
#include "../umbra_dragon.h"
