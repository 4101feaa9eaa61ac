/* Ghost cells between blocks of two levels: what goes to the coarser one is averaged, what comes from it is injected.
 *
 * usage: levels
 *
 * One rank with a row of two blocks, of which the second one is refined: its children are blocks 1 and 2. Each cell holds where its
 * middle lies, so every ghost is known. The program ends with 0 only if all are right.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "umbra.h"

#define BLOCKS 3
#define NX 8
#define NG 3
#define WIDTH (NX + 2 * NG)

/* A fine cell is 2 wide, a coarse one 4. */
static const int LEVEL[BLOCKS] = {0, 1, 1};
static const double FIRST[BLOCKS] = {0.0, 32.0, 48.0};
static double arrays[BLOCKS][WIDTH];
static uint32_t level_of_fine = 1;

static uint32_t owner(void *context, uint32_t block)
{
    (void)context;
    (void)block;
    return 0;
}

/* Of the first child the coarse block, as it has no neighbour of its own level there; of the coarse block none. */
static uint32_t neighbour(void *context, uint32_t block, const int32_t *direction)
{
    (void)context;
    if (direction[0] < 0)
        return block == 0 ? UMBRA_NO_BLOCK : block - 1;
    return block == 1 ? 2 : UMBRA_NO_BLOCK;
}

static uint32_t level(void *context, uint32_t block)
{
    (void)context;
    return block == 0 ? 0 : level_of_fine;
}

static uint32_t octant(void *context, uint32_t block)
{
    (void)context;
    return block == 2;
}

static uint32_t finer(void *context, uint32_t block, const int32_t *direction, uint32_t child)
{
    (void)context;
    return block == 0 && direction[0] > 0 && child == 0 ? 1 : UMBRA_NO_BLOCK;
}

static double *values(void *context, uint32_t block, uint32_t field)
{
    (void)context;
    (void)field;
    return arrays[block];
}

/* The middle of a cell of a block; ghosts are those of its level. */
static double middle(int block, int x)
{
    double width = LEVEL[block] == 0 ? 4.0 : 2.0;
    return FIRST[block] + width * (x + 0.5);
}

int main(void)
{
    static const struct umbra_field field = {1, 0, 0.0, 0.0, 0.0};
    struct umbra_mesh mesh;
    struct umbra_arrays view;
    struct umbra_boundary_options options;
    umbra_fabric fabric;
    umbra_boundary boundary;
    char detail[512];
    int block, x;
    doing = "levels";
    memset(&mesh, 0, sizeof mesh);
    mesh.size = sizeof mesh;
    mesh.cells[0] = NX;
    mesh.cells[1] = mesh.cells[2] = 1;
    mesh.ghosts[0] = NG;
    mesh.blocks = BLOCKS;
    mesh.ranks = 1;
    mesh.owner = owner;
    mesh.neighbour = neighbour;
    mesh.level = level;
    mesh.octant = octant;
    mesh.finer = finer;
    memset(&view, 0, sizeof view);
    view.size = sizeof view;
    view.values = values;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;

    must(umbra_fabric_create(&mesh, &field, 1, &fabric));
    must(umbra_boundary_build(fabric, 0, &mesh, &options, &boundary));
    for (block = 0; block < BLOCKS; block++)
        for (x = -NG; x < NX + NG; x++)
            arrays[block][x + NG] = x >= 0 && x < NX ? middle(block, x) : -1.0;
    must(umbra_boundary_exchange(boundary, &view));
    for (x = -NG; x < NX + NG; x++) {
        /* Three coarse ghosts are the means of two fine cells each: their own middles. */
        CHECK(arrays[0][x + NG] == (x < 0 ? -1.0 : middle(0, x)));
        /* Three fine ghosts lie in two coarse cells, and of the farther one only one does. */
        CHECK(arrays[1][x + NG] == (x < 0 ? middle(0, NX - (x < -2 ? 2 : 1)) : middle(1, x)));
        CHECK(arrays[2][x + NG] == (x >= NX ? -1.0 : middle(2, x)));
    }
    must(umbra_boundary_release(boundary));

    /* What cannot be is refused, with the names of two blocks. */
    mesh.octant = NULL;
    CHECK(umbra_boundary_build(fabric, 0, &mesh, &options, &boundary) == -UMBRA_EINVAL);
    mesh.octant = octant;
    level_of_fine = 3;
    CHECK(umbra_boundary_build(fabric, 0, &mesh, &options, &boundary) == -UMBRA_EINVAL);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strstr(detail, "block 0 of level 0 touches block 1 of level 3") != NULL);
    /* A mesh of an earlier header ends before the levels, and has one. */
    mesh.size = offsetof(struct umbra_mesh, level);
    CHECK(umbra_boundary_build(fabric, 0, &mesh, &options, &boundary) == -UMBRA_EINVAL);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strstr(detail, "both must name each other") != NULL);
    must(umbra_fabric_release(fabric));
    puts("levels: all right");
    return 0;
}
