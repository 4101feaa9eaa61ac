/* For programs that were written for Dragon: utils.h of its core, over Umbra. */
#include "../umbra_dragon.h"
