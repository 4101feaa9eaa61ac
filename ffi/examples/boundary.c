/* Ghost cells of a program's own arrays, exchanged between ranks that are processes. The same in Rust:
 * host/examples/boundary.rs; ranks of both go together.
 *
 * usage: boundary RANKS [PROGRAM]     runs rank 0 and starts the others, by this program or another one
 *        boundary RANK RANKS          runs one rank, whose standard input is the memory of the fabric
 *
 * Six blocks form a ring in x; each is its own neighbour in y. One field is on all blocks. The other, a dye of two
 * components, is only where some of it is: on block 0, and after an exchange on those that it reached. In the end blocks move
 * to the next rank. Every value is checked; the program ends with 0 only if all are right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define BLOCKS 6
#define NX 8
#define NY 6
#define NG 2
#define WIDTH (NX + 2 * NG)
#define CELLS (WIDTH * (NY + 2 * NG))
#define ROUNDS 50
#define RANKS 6
#define HEAT 0
#define DYE 1
#define DEFAULT 0.5

/* The mesh: who owns a block moves on by `shift`. */
struct ring {
    uint32_t ranks, shift;
};

static uint32_t owner(void *context, uint32_t block)
{
    const struct ring *ring = context;
    return (block + ring->shift) % ring->ranks;
}

static uint32_t neighbour(void *context, uint32_t block, const int32_t *direction)
{
    (void)context;
    return (block + BLOCKS + (uint32_t)direction[0]) % BLOCKS;
}

static struct umbra_mesh mesh_of(struct ring *ring)
{
    struct umbra_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    mesh.size = sizeof mesh;
    mesh.cells[0] = NX;
    mesh.cells[1] = NY;
    mesh.cells[2] = 1;
    mesh.ghosts[0] = mesh.ghosts[1] = NG;
    mesh.blocks = BLOCKS;
    mesh.ranks = ring->ranks;
    mesh.most_blocks = BLOCKS;
    mesh.owner = owner;
    mesh.neighbour = neighbour;
    mesh.context = ring;
    return mesh;
}

static const struct umbra_field FIELDS[2] = {
    {1, 0, 0.0, 0.0, 0.0},
    {2, UMBRA_FIELD_SPARSE, 1e-6, 1e-8, DEFAULT},
};

/* The arrays of this rank; NULL where a field is absent. */
struct arrays {
    double *values[BLOCKS][2];
    int allocated;
};

static double *values(void *context, uint32_t block, uint32_t field)
{
    return ((struct arrays *)context)->values[block][field];
}

static int allocate(void *context, uint32_t block, uint32_t field)
{
    struct arrays *arrays = context;
    size_t at, length = CELLS * FIELDS[field].components;
    double *fresh = malloc(length * sizeof *fresh);
    if (fresh == NULL)
        return 1;
    for (at = 0; at < length; at++)
        fresh[at] = FIELDS[field].default_value;
    arrays->values[block][field] = fresh;
    arrays->allocated++;
    return 0;
}

static void clear(struct arrays *arrays)
{
    int block;
    for (block = 0; block < BLOCKS; block++) {
        free(arrays->values[block][HEAT]);
        free(arrays->values[block][DYE]);
    }
    memset(arrays, 0, sizeof *arrays);
}

/* What is in a cell in this round, wherever it is seen: x and y may lie around the edges. */
static double heat(int round, int block, int x, int y)
{
    int column = (block * NX + x + BLOCKS * NX) % (BLOCKS * NX);
    return 1000.0 * round + column + 0.125 * ((y + NY) % NY);
}

/* Fills what is inside; nothing of the last round is left in the ghosts. */
static void fill(struct arrays *arrays, const struct ring *ring, uint32_t rank, int round)
{
    int block, x, y;
    for (block = 0; block < BLOCKS; block++) {
        if (owner((void *)ring, (uint32_t)block) != rank)
            continue;
        if (arrays->values[block][HEAT] == NULL)
            CHECK(allocate(arrays, (uint32_t)block, HEAT) == 0);
        for (y = -NG; y < NY + NG; y++)
            for (x = -NG; x < NX + NG; x++) {
                int inside = x >= 0 && x < NX && y >= 0 && y < NY;
                arrays->values[block][HEAT][(y + NG) * WIDTH + x + NG] = inside ? heat(round, block, x, y) : -1.0;
            }
    }
}

/* Every cell of the dense field is what its owner says; the dye has come to block 1 and nowhere else. */
static void verify(const struct arrays *arrays, const struct ring *ring, uint32_t rank, int round)
{
    /* The second component of the dye lies in the last cells of block 0's fourth row. */
    size_t drop = CELLS + (3 + NG) * WIDTH;
    int block, x, y;
    for (block = 0; block < BLOCKS; block++) {
        int mine = owner((void *)ring, (uint32_t)block) == rank;
        CHECK((arrays->values[block][HEAT] != NULL) == mine);
        CHECK((arrays->values[block][DYE] != NULL) == (mine && block <= 1));
        if (!mine)
            continue;
        for (y = -NG; y < NY + NG; y++)
            for (x = -NG; x < NX + NG; x++)
                CHECK(arrays->values[block][HEAT][(y + NG) * WIDTH + x + NG] == heat(round, block, x, y));
        if (block == 1) {
            CHECK(arrays->values[1][DYE][drop + NG - 1] == 7.0 + round);
            CHECK(arrays->values[1][DYE][drop + NG] == DEFAULT);
            CHECK(arrays->values[1][DYE][drop + NG - 2] == DEFAULT);
        }
    }
}

static void put_dye(struct arrays *arrays, const struct ring *ring, uint32_t rank, int round)
{
    if (owner((void *)ring, 0) != rank)
        return;
    if (arrays->values[0][DYE] == NULL)
        CHECK(allocate(arrays, 0, DYE) == 0);
    arrays->values[0][DYE][CELLS + (3 + NG) * WIDTH + NG + NX - 1] = 7.0 + round;
}

/* The same exchange as umbra_boundary_exchange, in steps and halves. */
static void in_steps(umbra_boundary boundary, const struct umbra_arrays *view)
{
    int sent = 0, here = 0;
    must(umbra_boundary_start_receive(boundary, UMBRA_SCOPE_NONLOCAL));
    while (!sent) {
        must(umbra_boundary_send(boundary, view, UMBRA_SCOPE_NONLOCAL, &sent));
        must(umbra_boundary_receive(boundary, view, UMBRA_SCOPE_NONLOCAL, &here));
    }
    CHECK(umbra_boundary_set(boundary, view, UMBRA_SCOPE_LOCAL) == -UMBRA_ENOTREADY);
    must(umbra_boundary_send(boundary, view, UMBRA_SCOPE_LOCAL, &sent));
    must(umbra_boundary_receive(boundary, view, UMBRA_SCOPE_LOCAL, &here));
    CHECK(sent && here);
    must(umbra_boundary_set(boundary, view, UMBRA_SCOPE_LOCAL));
    for (here = 0; !here;)
        must(umbra_boundary_receive(boundary, view, UMBRA_SCOPE_NONLOCAL, &here));
    must(umbra_boundary_set(boundary, view, UMBRA_SCOPE_NONLOCAL));
}

/* An exchange that names nothing wrong, and calls that do. */
static double *misplaced(void *context, uint32_t block, uint32_t field)
{
    double *array = values(context, block, field);
    return array == NULL ? NULL : (double *)((char *)array + 1);
}

static uint32_t one_way(void *context, uint32_t block, const int32_t *direction)
{
    return direction[0] > 0 ? 0 : neighbour(context, block, direction);
}

static int no_memory(void *context, uint32_t block, uint32_t field)
{
    (void)context, (void)block, (void)field;
    return 1;
}

/* Where the dye comes to and finds no memory is named; with some, the same exchange goes on. */
static void without_memory(umbra_boundary boundary, const struct umbra_arrays *view, uint32_t rank)
{
    struct umbra_arrays full = *view;
    char detail[200], expected[200];
    full.allocate = no_memory;
    CHECK(umbra_boundary_exchange(boundary, &full) == -UMBRA_EFULL);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    sprintf(expected, "rank %u has no memory for field %d on block 1: free some, or use more ranks", (unsigned)rank, DYE);
    CHECK(strcmp(detail, expected) == 0);
}

static double *dye_misplaced(void *context, uint32_t block, uint32_t field)
{
    return field == DYE ? misplaced(context, block, field) : values(context, block, field);
}

/* A sparse array that is not aligned is none that is absent: nothing of it is sent, and with the right one the same exchange
 * goes on. */
static void crooked(umbra_boundary boundary, const struct umbra_arrays *view, uint32_t ranks)
{
    struct umbra_arrays wrong = *view;
    int allocated = ((struct arrays *)view->context)->allocated, sent = 0;
    char detail[200];
    wrong.values = dye_misplaced;
    if (ranks > 1)
        CHECK(umbra_boundary_send(boundary, &wrong, UMBRA_SCOPE_NONLOCAL, &sent) == -UMBRA_EINVAL && sent == 0);
    CHECK(umbra_boundary_exchange(boundary, &wrong) == -UMBRA_EINVAL);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strcmp(detail, "the array of field 1 on block 0 is not aligned: put that right, and call again") == 0);
    must(umbra_boundary_send(boundary, view, UMBRA_SCOPE_LOCAL, &sent));
    wrong.values = misplaced;
    CHECK(sent && umbra_boundary_receive(boundary, &wrong, UMBRA_SCOPE_LOCAL, &sent) == -UMBRA_EINVAL);
    CHECK(((struct arrays *)view->context)->allocated == allocated);
}

/* A child that was forked off may not send as the same rank, nor end the exchange. */
static void inherited(umbra_boundary boundary, const struct umbra_arrays *view, const struct umbra_mesh *mesh)
{
    struct umbra_boundary_statistics statistics;
    int sent, status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        statistics.size = sizeof statistics;
        _exit(umbra_boundary_exchange(boundary, view) == -UMBRA_ESTALE &&
                      umbra_boundary_send(boundary, view, UMBRA_SCOPE_ANY, &sent) == -UMBRA_ESTALE &&
                      umbra_boundary_remesh(boundary, mesh) == -UMBRA_ESTALE &&
                      umbra_boundary_statistics(boundary, &statistics) == -UMBRA_ESTALE &&
                      umbra_boundary_release(boundary) == -UMBRA_ESTALE
                  ? 0
                  : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A mesh that one rank cannot use is used by none, and the old one stays. */
static void refused(umbra_boundary boundary, uint32_t rank, const struct umbra_mesh *mesh)
{
    struct umbra_mesh wrong = *mesh;
    uint32_t turn;
    wrong.neighbour = one_way;
    for (turn = 0; turn < mesh->ranks; turn++) {
        const struct umbra_mesh *ours = rank == turn ? &wrong : mesh;
        int expected = rank == turn ? -UMBRA_EINVAL : -UMBRA_ECONFLICT;
        CHECK(umbra_boundary_remesh(boundary, ours) == expected);
    }
}

static void refusals(umbra_fabric fabric, umbra_boundary boundary, const struct umbra_mesh *mesh)
{
    struct umbra_boundary_options options;
    struct umbra_arrays view;
    struct umbra_mesh wrong = *mesh;
    struct umbra_field field = FIELDS[1];
    umbra_boundary other = 0;
    umbra_fabric none = 0;
    memset(&view, 0, sizeof view);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    CHECK(umbra_boundary_exchange(boundary, &view) == -UMBRA_ESTRUCT);
    view.size = sizeof view;
    CHECK(umbra_boundary_exchange(boundary, &view) == -UMBRA_EINVAL);
    CHECK(umbra_boundary_exchange(fabric, &view) == -UMBRA_EKIND);
    CHECK(umbra_boundary_start_receive(boundary, 3) == -UMBRA_EINVAL);
    CHECK(umbra_boundary_build(fabric, 0, mesh, &options, &other) == -UMBRA_EINUSE && other == 0);
    CHECK(umbra_boundary_build(fabric, mesh->ranks, mesh, &options, &other) == -UMBRA_ERANK);
    wrong.ranks++;
    CHECK(umbra_boundary_build(fabric, 0, &wrong, &options, &other) == -UMBRA_EINVAL);
    wrong = *mesh;
    wrong.neighbour = NULL;
    CHECK(umbra_fabric_create(&wrong, FIELDS, 2, &none) == -UMBRA_EINVAL);
    field.components = 0;
    CHECK(umbra_fabric_create(mesh, &field, 1, &none) == -UMBRA_EINVAL);
    CHECK(umbra_fabric_attach(-1, mesh, FIELDS, 2, &none) == -UMBRA_EINVAL);
    CHECK(umbra_fabric_attach(STDERR_FILENO, mesh, FIELDS, 2, &none) == -UMBRA_ESYSTEM && none == 0);
}

static void run(umbra_fabric fabric, uint32_t rank, struct ring *ring)
{
    struct umbra_mesh mesh = mesh_of(ring);
    struct umbra_boundary_options options;
    struct umbra_boundary_statistics statistics;
    struct umbra_arrays view;
    struct arrays arrays;
    umbra_boundary boundary;
    int round;

    memset(&arrays, 0, sizeof arrays);
    memset(&view, 0, sizeof view);
    view.size = sizeof view;
    view.values = values;
    view.allocate = allocate;
    view.context = &arrays;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.timeout_ms = 60000;

    doing = "build";
    must(umbra_boundary_build(fabric, rank, &mesh, &options, &boundary));
    for (round = 0; round < ROUNDS; round++) {
        doing = "exchange";
        if (round == ROUNDS / 2) {
            doing = "a mesh that is refused";
            refused(boundary, rank, &mesh);
            doing = "remesh";
            /* Each block goes to the next rank; its arrays are made anew there. */
            clear(&arrays);
            ring->shift = 1;
            must(umbra_boundary_remesh(boundary, &mesh));
        }
        fill(&arrays, ring, rank, round);
        put_dye(&arrays, ring, rank, round);
        if (round == 0 && owner(ring, 1) == rank)
            without_memory(boundary, &view, rank);
        if (round == 1 && rank == 0)
            inherited(boundary, &view, &mesh);
        if (round == 2 && owner(ring, 0) == rank)
            crooked(boundary, &view, ring->ranks);
        if (round % 2 == 0)
            must(umbra_boundary_exchange(boundary, &view));
        else
            in_steps(boundary, &view);
        verify(&arrays, ring, rank, round);
    }

    doing = "the end";
    statistics.size = sizeof statistics;
    must(umbra_boundary_statistics(boundary, &statistics));
    CHECK(statistics.refused == 0 && (ring->ranks == 1) == (statistics.messages == 0));
    if (rank == 0) {
        doing = "refusals";
        refusals(fabric, boundary, &mesh);
        fill(&arrays, ring, rank, 0);
        view.values = misplaced;
        CHECK(umbra_boundary_exchange(boundary, &view) == -UMBRA_EINVAL);
    }
    clear(&arrays);
    must(umbra_boundary_release(boundary));
    CHECK(umbra_boundary_release(boundary) == -UMBRA_ESTALE);
    must(umbra_fabric_release(fabric));
    printf("rank %u: all is right\n", (unsigned)rank);
}

/* Starts the program of another rank with the fabric as its standard input. */
static pid_t start(const char *program, int descriptor, uint32_t rank, uint32_t ranks)
{
    char words[2][16];
    pid_t pid;
    snprintf(words[0], sizeof words[0], "%u", (unsigned)rank);
    snprintf(words[1], sizeof words[1], "%u", (unsigned)ranks);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(descriptor, STDIN_FILENO);
        execl(program, program, words[0], words[1], (char *)NULL);
        _exit(127);
    }
    return pid;
}

int main(int count, char **arguments)
{
    struct ring ring = {0, 0};
    struct umbra_mesh mesh;
    umbra_fabric fabric;
    pid_t others[RANKS];
    int first, second, is_rank, descriptor, rank, status;

    doing = "arguments";
    first = count > 1 ? atoi(arguments[1]) : 0;
    second = count > 2 ? atoi(arguments[2]) : 0;
    is_rank = count == 3 && second > 0;
    ring.ranks = (uint32_t)(is_rank ? second : first);
    CHECK(count >= 2 && count <= 3 && ring.ranks >= 1 && ring.ranks <= RANKS);
    mesh = mesh_of(&ring);
    if (is_rank) {
        doing = "attach";
        must(umbra_fabric_attach(STDIN_FILENO, &mesh, FIELDS, 2, &fabric));
        run(fabric, (uint32_t)first, &ring);
        return 0;
    }
    doing = "create";
    must(umbra_fabric_create(&mesh, FIELDS, 2, &fabric));
    must(umbra_fabric_descriptor(fabric, &descriptor));
    for (rank = 1; rank < first; rank++)
        others[rank] = start(count == 3 ? arguments[2] : arguments[0], descriptor, (uint32_t)rank, ring.ranks);
    run(fabric, 0, &ring);
    doing = "the other ranks";
    for (rank = 1; rank < first; rank++)
        CHECK(waitpid(others[rank], &status, 0) == others[rank] && status == 0);
    return 0;
}
