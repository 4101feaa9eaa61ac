/* What goes wrong with exchanges over MPI, and what a program is told of it.
 *
 * usage: mpirun -n RANKS refusals             three ranks at least; each answer is checked, and all ranks end well
 *        mpirun -n RANKS refusals missing     the last rank does not build; the others are told so, and end all with that code
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define CELLS 4
#define LENGTH (3 * CELLS)
/* Milliseconds until a rank counts as missing, and in which all others build on a busy machine. */
#define PATIENCE 4000

static const struct umbra_field FIELD = {1, 0, 0.0, 0.0, 0.0};

/* A ring of blocks, one a rank. */
static uint32_t owner(void *context, uint32_t block)
{
    (void)context;
    return block;
}

static uint32_t neighbour(void *context, uint32_t block, const int32_t *direction)
{
    uint32_t ranks = *(const uint32_t *)context;
    return (block + ranks + (uint32_t)direction[0]) % ranks;
}

static uint32_t one_way(void *context, uint32_t block, const int32_t *direction)
{
    return direction[0] > 0 ? 0 : neighbour(context, block, direction);
}

static double array[LENGTH];

static double *values(void *context, uint32_t block, uint32_t field)
{
    (void)context, (void)block, (void)field;
    return array;
}

static struct umbra_arrays view;
static struct umbra_boundary_options options;

static struct umbra_mesh mesh_of(uint32_t *ranks)
{
    struct umbra_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    mesh.size = sizeof mesh;
    mesh.cells[0] = CELLS;
    mesh.cells[1] = mesh.cells[2] = 1;
    mesh.ghosts[0] = CELLS;
    mesh.blocks = mesh.ranks = *ranks;
    mesh.owner = owner;
    mesh.neighbour = neighbour;
    mesh.context = ranks;
    return mesh;
}

/* An exchange brings what the two neighbours have. */
static void exchange(umbra_boundary boundary, uint32_t rank, uint32_t ranks)
{
    int at;
    for (at = 0; at < LENGTH; at++)
        array[at] = rank + 0.5;
    must(umbra_boundary_exchange(boundary, &view));
    CHECK(array[0] == (rank + ranks - 1) % ranks + 0.5 && array[LENGTH - 1] == (rank + 1) % ranks + 0.5);
    CHECK(array[CELLS] == rank + 0.5);
}

/* What one rank cannot make, none makes; it is told why, and the others who it is. */
static void create(uint32_t rank, uint32_t ranks)
{
    uint32_t one = 1;
    struct umbra_mesh mesh = mesh_of(&ranks), wrong = mesh, alone = mesh_of(&one);
    umbra_fabric fabric = 0;
    pid_t child;
    int status;
    doing = "a fabric of no communicator";
    CHECK(umbra_mpi_fabric_create(MPI_COMM_NULL, &mesh, &FIELD, 1, UMBRA_MPI_SLOT, &fabric) == -UMBRA_EINVAL);
    CHECK(told("communicator is null"));
    doing = "a transport that nobody knows";
    CHECK(umbra_mpi_fabric_create(MPI_COMM_WORLD, &mesh, &FIELD, 1, 7, &fabric) == -UMBRA_EINVAL);
    CHECK(told("no transport over MPI is called 7"));
    doing = "a mesh of one rank that is wrong";
    wrong.neighbour = one_way;
    if (rank == 1) {
        CHECK(umbra_mpi_fabric_create(MPI_COMM_WORLD, &wrong, &FIELD, 1, UMBRA_MPI_SLOT, &fabric) == -UMBRA_EINVAL);
    } else {
        CHECK(umbra_mpi_fabric_create(MPI_COMM_WORLD, &mesh, &FIELD, 1, UMBRA_MPI_SLOT, &fabric) == -UMBRA_ECONFLICT);
        CHECK(told("rank 1 refuses a fabric"));
    }
    doing = "a mesh of more ranks than there are";
    wrong = mesh;
    wrong.ranks++;
    CHECK(umbra_mpi_fabric_create(MPI_COMM_WORLD, &wrong, &FIELD, 1, UMBRA_MPI_SLOT, &fabric) == -UMBRA_EINVAL);
    CHECK(told("its communicator"));
    doing = "two transports";
    CHECK(umbra_mpi_fabric_create(MPI_COMM_WORLD, &mesh, &FIELD, 1, rank == 0 ? UMBRA_MPI_RMA : UMBRA_MPI_SLOT, &fabric) ==
          -UMBRA_ECONFLICT);
    CHECK(told("all name the same transport, mesh and fields") && fabric == 0);
    doing = "a fabric in a child";
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(umbra_mpi_fabric_create(MPI_COMM_SELF, &alone, &FIELD, 1, UMBRA_MPI_SLOT, &fabric) == -UMBRA_ESTALE ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct tried {
    umbra_fabric fabric;
    umbra_boundary boundary;
    struct umbra_mesh *mesh;
    uint32_t rank;
};

/* Another thread may use none of it. */
static void *elsewhere(void *context)
{
    const struct tried *tried = context;
    umbra_boundary other = 0;
    CHECK(umbra_boundary_exchange(tried->boundary, &view) == -UMBRA_EINVAL);
    CHECK(told("another thread has made it"));
    CHECK(umbra_boundary_release(tried->boundary) == -UMBRA_EINVAL);
    CHECK(umbra_boundary_build(tried->fabric, tried->rank, tried->mesh, &options, &other) == -UMBRA_EINVAL && other == 0);
    CHECK(umbra_fabric_release(tried->fabric) == -UMBRA_EINVAL);
    CHECK(umbra_mpi_fabric_free(tried->fabric) == -UMBRA_EINVAL);
    return NULL;
}

/* Builds that are refused, and such that differ; then one on the same fabric that goes well. */
static void build(uint32_t transport, uint32_t rank, uint32_t ranks)
{
    struct umbra_mesh mesh = mesh_of(&ranks), wrong = mesh;
    struct umbra_boundary_options other_kind = options;
    struct tried tried;
    umbra_fabric fabric;
    umbra_boundary boundary = 0, other = 0;
    uint32_t turn;
    pthread_t thread;
    int descriptor;
    doing = "create";
    must(umbra_mpi_fabric_create(MPI_COMM_WORLD, &mesh, &FIELD, 1, transport, &fabric));
    CHECK(umbra_fabric_descriptor(fabric, &descriptor) == -UMBRA_EKIND);
    doing = "a rank that another process is";
    if (rank == 0) {
        CHECK(umbra_boundary_build(fabric, 1, &mesh, &options, &boundary) == -UMBRA_ERANK);
        CHECK(told("this process is rank 0 of its fabric, not 1"));
    } else {
        CHECK(umbra_boundary_build(fabric, rank, &mesh, &options, &boundary) == -UMBRA_ECONFLICT);
        CHECK(told("rank 0"));
    }
    doing = "a mesh that one rank cannot use";
    wrong.neighbour = one_way;
    CHECK(umbra_boundary_build(fabric, rank, rank == 1 ? &wrong : &mesh, &options, &boundary) ==
          (rank == 1 ? -UMBRA_EINVAL : -UMBRA_ECONFLICT));
    doing = "no place for the handle, options of no version, and a kind that there is not, on one rank each";
    for (turn = 0; turn < 3; turn++) {
        static const int codes[3] = {-UMBRA_EINVAL, -UMBRA_ESTRUCT, -UMBRA_EINVAL};
        struct umbra_boundary_options unusable = options;
        umbra_boundary *place = rank == turn && turn == 0 ? NULL : &boundary;
        if (rank == turn && turn == 1)
            unusable.size = 1;
        if (rank == turn && turn == 2)
            unusable.kind = 256;
        CHECK(umbra_boundary_build(fabric, rank, &mesh, &unusable, place) == (rank == turn ? codes[turn] : -UMBRA_ECONFLICT));
        CHECK(rank == turn || told(turn == 0 ? "rank 0 refuses" : turn == 1 ? "rank 1 refuses" : "rank 2 refuses"));
    }
    doing = "another kind on one rank";
    other_kind.kind = 7;
    CHECK(umbra_boundary_build(fabric, rank, &mesh, rank == 1 ? &other_kind : &options, &boundary) == -UMBRA_ECONFLICT);
    /* Who has a channel to that rank is told which. */
    CHECK(told(rank <= 2 ? "field 0" : "refuses its mesh or a plan") && boundary == 0);
    doing = "build after all that";
    must(umbra_boundary_build(fabric, rank, &mesh, &options, &boundary));
    exchange(boundary, rank, ranks);
    doing = "a second exchange on the same fabric";
    CHECK(umbra_boundary_build(fabric, rank, &mesh, &options, &other) == -UMBRA_EINUSE && other == 0);
    CHECK(umbra_mpi_fabric_free(fabric) == -UMBRA_EINUSE);
    CHECK(umbra_mpi_fabric_free(boundary) == -UMBRA_EKIND);
    doing = "another thread";
    tried.fabric = fabric;
    tried.boundary = boundary;
    tried.mesh = &mesh;
    tried.rank = rank;
    CHECK(pthread_create(&thread, NULL, elsewhere, &tried) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    doing = "the first exchange, after that";
    exchange(boundary, rank, ranks);
    must(umbra_boundary_release(boundary));
    CHECK(umbra_boundary_release(boundary) == -UMBRA_ESTALE);
    doing = "a fabric that one rank uses still";
    must(umbra_boundary_build(fabric, rank, &mesh, &options, &boundary));
    exchange(boundary, rank, ranks);
    if (rank > 0)
        must(umbra_boundary_release(boundary));
    CHECK(umbra_mpi_fabric_free(fabric) == (rank > 0 ? -UMBRA_ECONFLICT : -UMBRA_EINUSE));
    if (rank == 0)
        must(umbra_boundary_release(boundary));
    must(umbra_mpi_fabric_free(fabric));
    CHECK(umbra_mpi_fabric_free(fabric) == -UMBRA_ESTALE);
}

/* The last rank builds, and does not take part in an exchange: its neighbours name it, its block and the field at their
 * deadline, and all release what they have. */
static void late(uint32_t rank, uint32_t ranks)
{
    struct umbra_mesh mesh = mesh_of(&ranks);
    struct umbra_boundary_options short_time = options;
    umbra_fabric fabric;
    umbra_boundary boundary;
    char words[64];
    doing = "an exchange without one rank";
    short_time.timeout_ms = PATIENCE;
    must(umbra_mpi_fabric_create(MPI_COMM_WORLD, &mesh, &FIELD, 1, UMBRA_MPI_SLOT, &fabric));
    must(umbra_boundary_build(fabric, rank, &mesh, &short_time, &boundary));
    sprintf(words, "rank %u: block %u to block %u, field 0", (unsigned)ranks - 1, (unsigned)ranks - 1, (unsigned)rank);
    if (rank == 0 || rank == ranks - 2) {
        CHECK(umbra_boundary_exchange(boundary, &view) == -UMBRA_ETIMEOUT);
        CHECK(told(words));
    } else if (rank < ranks - 1) {
        must(umbra_boundary_exchange(boundary, &view));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    must(umbra_boundary_release(boundary));
    must(umbra_mpi_fabric_free(fabric));
}

/* The last rank does not build. Whoever is told first ends all. */
static void missing(uint32_t rank, uint32_t ranks)
{
    struct umbra_mesh mesh = mesh_of(&ranks);
    struct umbra_boundary_options short_time = options;
    umbra_fabric fabric;
    umbra_boundary boundary;
    doing = "build";
    short_time.timeout_ms = PATIENCE;
    must(umbra_mpi_fabric_create(MPI_COMM_WORLD, &mesh, &FIELD, 1, UMBRA_MPI_SLOT, &fabric));
    if (rank < ranks - 1)
        must(umbra_boundary_build(fabric, rank, &mesh, &short_time, &boundary));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int count, char **arguments)
{
    int is_missing = count > 1 && strcmp(arguments[1], "missing") == 0;
    int rank, ranks, level;
    struct umbra_mesh mesh;
    umbra_fabric fabric = 0, left;
    uint32_t all = 1;

    memset(&view, 0, sizeof view);
    view.size = sizeof view;
    view.values = values;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.timeout_ms = 60000;
    mesh = mesh_of(&all);
    doing = "before MPI";
    if (umbra_mpi_fabric_create(MPI_COMM_WORLD, &mesh, &FIELD, 1, UMBRA_MPI_SLOT, &fabric) != -UMBRA_ENOTREADY)
        return 1;
    doing = "begin";
    MPI_Init_thread(&count, &arguments, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(ranks >= 3);
    if (is_missing)
        missing((uint32_t)rank, (uint32_t)ranks);
    create((uint32_t)rank, (uint32_t)ranks);
    build(UMBRA_MPI_SLOT, (uint32_t)rank, (uint32_t)ranks);
    build(UMBRA_MPI_RMA, (uint32_t)rank, (uint32_t)ranks);
    build(UMBRA_MPI_NODES, (uint32_t)rank, (uint32_t)ranks);
    late((uint32_t)rank, (uint32_t)ranks);
    doing = "a fabric of one process";
    must(umbra_mpi_fabric_create(MPI_COMM_SELF, &mesh, &FIELD, 1, UMBRA_MPI_SLOT, &left));
    MPI_Finalize();
    if (umbra_fabric_release(left) != -UMBRA_EDESTROYED || !told("MPI is finalized"))
        return 1;
    if (rank == 0)
        printf("%d ranks: each answer is right\n", ranks);
    return 0;
}
