/* What a program does with ghost cells between two exchanges: it fills those beyond the edges of the domain, and gives back
 * fields that hold nothing.
 *
 * usage: edges
 *
 * One rank with one block that has no neighbours. A scalar field is on it, and a sparse vector field of two components, which is
 * mirrored: its normal component changes its sign. Every value is checked; the program ends with 0 only if all are right.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "umbra.h"

#define NX 4
#define NY 3
#define NG 2
#define WIDTH (NX + 2 * NG)
#define HEIGHT (NY + 2 * NG)
#define CELLS (WIDTH * HEIGHT)
#define SCALAR 0
#define VECTOR 1

static double scalar[CELLS], vector[2 * CELLS];
static int is_present;

static uint32_t owner(void *context, uint32_t block)
{
    (void)context;
    (void)block;
    return 0;
}

static uint32_t neighbour(void *context, uint32_t block, const int32_t *direction)
{
    (void)context;
    (void)block;
    (void)direction;
    return UMBRA_NO_BLOCK;
}

static double *values(void *context, uint32_t block, uint32_t field)
{
    (void)context;
    (void)block;
    if (field == SCALAR)
        return scalar;
    return is_present ? vector : NULL;
}

/* What the interior holds; no value comes twice. */
static double value(int component, int x, int y)
{
    return 1.0 + 100.0 * component + 10.0 * y + x;
}

/* The cell of the interior that a place on one axis is filled from, by the kind of edge; `turned` if it lies beyond one. */
static int from(int at, int cells, uint32_t edge, int *turned)
{
    int inside = at - NG;
    *turned = inside < 0 || inside >= cells;
    if (inside < 0)
        return edge == UMBRA_EDGE_REFLECTING ? -1 - inside : 0;
    if (inside >= cells)
        return edge == UMBRA_EDGE_REFLECTING ? 2 * cells - 1 - inside : cells - 1;
    return inside;
}

static void fill(void)
{
    int x, y;
    for (y = 0; y < NY; y++)
        for (x = 0; x < NX; x++) {
            int at = (y + NG) * WIDTH + x + NG;
            scalar[at] = value(0, x, y);
            vector[at] = value(1, x, y);
            vector[CELLS + at] = value(2, x, y);
        }
}

/* x is continued below and mirrored above, y the other way round. */
static const uint32_t EDGES[6] = {UMBRA_EDGE_OUTFLOW, UMBRA_EDGE_REFLECTING, UMBRA_EDGE_REFLECTING,
                                  UMBRA_EDGE_OUTFLOW, UMBRA_EDGE_OUTFLOW, UMBRA_EDGE_OUTFLOW};

static void verify(void)
{
    int x, y;
    for (y = 0; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++) {
            uint32_t edge_x = EDGES[x < NG ? 0 : 1], edge_y = EDGES[y < NG ? 2 : 3];
            int turned_x, turned_y, at = y * WIDTH + x;
            int from_x = from(x, NX, edge_x, &turned_x), from_y = from(y, NY, edge_y, &turned_y);
            double sign_x = turned_x && edge_x == UMBRA_EDGE_REFLECTING ? -1.0 : 1.0;
            double sign_y = turned_y && edge_y == UMBRA_EDGE_REFLECTING ? -1.0 : 1.0;
            CHECK(scalar[at] == value(0, from_x, from_y));
            CHECK(vector[at] == sign_x * value(1, from_x, from_y));
            CHECK(vector[CELLS + at] == sign_y * value(2, from_x, from_y));
        }
}

int main(void)
{
    static const struct umbra_field fields[2] = {
        {1, 0, 0.0, 0.0, 0.0},
        {2, UMBRA_FIELD_VECTOR | UMBRA_FIELD_SPARSE, 1e-6, 1e-8, 0.0},
    };
    uint32_t wrong[6] = {0, 0, 2, 0, 0, 0};
    struct umbra_mesh mesh;
    struct umbra_arrays arrays;
    struct umbra_boundary_options options;
    umbra_fabric fabric;
    umbra_boundary boundary;
    int idle;

    memset(&mesh, 0, sizeof mesh);
    mesh.size = sizeof mesh;
    mesh.cells[0] = NX;
    mesh.cells[1] = NY;
    mesh.cells[2] = 1;
    mesh.ghosts[0] = mesh.ghosts[1] = NG;
    mesh.blocks = mesh.ranks = 1;
    mesh.owner = owner;
    mesh.neighbour = neighbour;
    memset(&arrays, 0, sizeof arrays);
    arrays.size = sizeof arrays;
    arrays.values = values;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;

    doing = "build";
    must(umbra_fabric_create(&mesh, fields, 2, &fabric));
    must(umbra_boundary_build(fabric, 0, &mesh, &options, &boundary));

    doing = "edges";
    is_present = 1;
    fill();
    must(umbra_boundary_exchange(boundary, &arrays));
    must(umbra_boundary_fill_edges(boundary, &arrays, EDGES));
    verify();
    CHECK(umbra_boundary_fill_edges(boundary, &arrays, wrong) == -UMBRA_EINVAL);
    CHECK(umbra_boundary_fill_edges(boundary, &arrays, NULL) == -UMBRA_EINVAL);

    doing = "idle fields";
    must(umbra_boundary_is_idle(boundary, &arrays, 0, VECTOR, &idle));
    CHECK(!idle);
    memset(vector, 0, sizeof vector);
    must(umbra_boundary_is_idle(boundary, &arrays, 0, VECTOR, &idle));
    CHECK(idle);
    /* A ghost counts, and so does an error of the physics. */
    vector[CELLS] = 1e-7;
    must(umbra_boundary_is_idle(boundary, &arrays, 0, VECTOR, &idle));
    CHECK(!idle);
    vector[CELLS] = NAN;
    must(umbra_boundary_is_idle(boundary, &arrays, 0, VECTOR, &idle));
    CHECK(!idle);
    is_present = 0;
    must(umbra_boundary_is_idle(boundary, &arrays, 0, VECTOR, &idle));
    CHECK(!idle);
    memset(scalar, 0, sizeof scalar);
    must(umbra_boundary_is_idle(boundary, &arrays, 0, SCALAR, &idle));
    CHECK(!idle);
    CHECK(umbra_boundary_is_idle(boundary, &arrays, 1, VECTOR, &idle) == -UMBRA_EINVAL);
    CHECK(umbra_boundary_is_idle(boundary, &arrays, 0, 2, &idle) == -UMBRA_EINVAL);

    must(umbra_boundary_release(boundary));
    must(umbra_fabric_release(fabric));
    printf("all is right\n");
    return 0;
}
