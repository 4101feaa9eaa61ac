/* What calls leave and take.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "umbra.h"

#define BLOCKS 8
#define RANKS 4
#define CELLS 8

/* A ring of blocks, whose owners are moved on by the shift. */
struct ring {
    uint32_t ranks, shift;
};

static uint32_t owner(void *context, uint32_t block)
{
    struct ring *ring = context;
    return (block + ring->shift) % BLOCKS * ring->ranks / BLOCKS;
}

static uint32_t neighbour(void *context, uint32_t block, const int32_t *direction)
{
    (void)context;
    return (block + BLOCKS + (uint32_t)direction[0]) % BLOCKS;
}

static struct umbra_mesh mesh_of(struct ring *ring, uint32_t most_blocks)
{
    struct umbra_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    mesh.size = sizeof mesh;
    mesh.cells[0] = CELLS;
    mesh.cells[1] = mesh.cells[2] = 1;
    mesh.ghosts[0] = 1;
    mesh.blocks = BLOCKS;
    mesh.ranks = ring->ranks;
    mesh.most_blocks = most_blocks;
    mesh.owner = owner;
    mesh.neighbour = neighbour;
    mesh.context = ring;
    return mesh;
}

/* Many fields, so that a message is of several pages. */
static long bytes_of(uint32_t most_blocks)
{
    static struct umbra_field fields[500];
    struct ring ring;
    struct umbra_mesh mesh;
    struct stat told;
    umbra_fabric fabric;
    size_t i;
    int descriptor;
    for (i = 0; i < sizeof fields / sizeof *fields; i++)
        fields[i].components = 1;
    memset(&ring, 0, sizeof ring);
    ring.ranks = RANKS;
    mesh = mesh_of(&ring, most_blocks);
    must(umbra_fabric_create(&mesh, fields, sizeof fields / sizeof *fields, &fabric));
    must(umbra_fabric_descriptor(fabric, &descriptor));
    CHECK(fstat(descriptor, &told) == 0);
    must(umbra_fabric_release(fabric));
    return (long)told.st_size;
}

/* A fabric has memory for so many blocks on any rank, and for no more. */
static void sizes(void)
{
    uint32_t most;
    doing = "sizes of fabrics";
    for (most = 1; most <= BLOCKS / RANKS; most++)
        CHECK(bytes_of(most) == bytes_of(0));
    for (; most <= BLOCKS; most++)
        CHECK(bytes_of(most) > bytes_of(most - 1));
    CHECK(bytes_of(BLOCKS + 1) == bytes_of(BLOCKS));
}

int main(void)
{
    sizes();
    puts("all is right");
    return 0;
}
