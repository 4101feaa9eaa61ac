/* For programs that were written for Dragon: managed_memory.h of its core, over Umbra. */
#include "../umbra_dragon.h"
