/* A mesh code over MPI with arrays of its own, whose blocks keep a sparse field only where some of it is.
 *
 * usage: mpirun -n RANKS halo [slot|rma|nodes]
 *
 * Blocks fill a periodic box in space. Everything in it moves by one cell along each axis in each step, so the value of a cell
 * comes from the cell before it on the diagonal, at the sides, edges and corners of a block from a ghost: a step is an exchange
 * and a copy. What is in a cell then is known in closed form, and each cell is compared with that, bit for bit. There are a dense
 * field, and a dye of two components that fills a cube. Blocks that the dye reaches get its arrays from the exchange, and give
 * them back when it has left. Now and then all blocks move to the next rank, with their arrays, by messages of the program.
 */
#include "check.h"

#define BX 4
#define BY 3
#define BZ 3
#define BLOCKS (BX * BY * BZ)
#define NX 6
#define NY 5
#define NZ 4
#define NG 2
#define WX (NX + 2 * NG)
#define WY (NY + 2 * NG)
#define WZ (NZ + 2 * NG)
#define CELLS (WX * WY * WZ)
#define STEPS 60
#define MOVES_EVERY 17
#define FIELDS 2
#define HEAT 0
#define DYE 1
#define DEFAULT 0.25
#define SIDE 3
/* Looks in a row at which a field held nothing, before it is given back. */
#define LOOKS 3

/* The mesh: who owns a block moves on by `shift`. */
struct box {
    uint32_t ranks, shift;
};

static uint32_t owner(void *context, uint32_t block)
{
    const struct box *box = context;
    return (block + box->shift) % box->ranks;
}

static uint32_t wrapped(int place, int size)
{
    return (uint32_t)((place + size) % size);
}

static uint32_t neighbour(void *context, uint32_t block, const int32_t *direction)
{
    int x = (int)block % BX, y = (int)block / BX % BY, z = (int)block / (BX * BY);
    (void)context;
    return wrapped(x + direction[0], BX) + BX * (wrapped(y + direction[1], BY) + BY * wrapped(z + direction[2], BZ));
}

static struct umbra_mesh mesh_of(struct box *box)
{
    struct umbra_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    mesh.size = sizeof mesh;
    mesh.cells[0] = NX;
    mesh.cells[1] = NY;
    mesh.cells[2] = NZ;
    mesh.ghosts[0] = mesh.ghosts[1] = mesh.ghosts[2] = NG;
    mesh.blocks = BLOCKS;
    mesh.ranks = box->ranks;
    mesh.owner = owner;
    mesh.neighbour = neighbour;
    mesh.context = box;
    return mesh;
}

static const struct umbra_field KINDS[FIELDS] = {
    {1, 0, 0.0, 0.0, 0.0},
    {2, UMBRA_FIELD_SPARSE, 1e-12, 1e-12, DEFAULT},
};

/* The arrays of this rank; NULL where a field is absent. */
struct arrays {
    double *values[BLOCKS][FIELDS];
    uint32_t looks[BLOCKS];
    int came, went;
};

static double *values(void *context, uint32_t block, uint32_t field)
{
    return ((struct arrays *)context)->values[block][field];
}

static size_t length_of(uint32_t field)
{
    return CELLS * KINDS[field].components;
}

static int allocate(void *context, uint32_t block, uint32_t field)
{
    struct arrays *arrays = context;
    size_t at, length = length_of(field);
    double *fresh = malloc(length * sizeof *fresh);
    if (fresh == NULL)
        return 1;
    for (at = 0; at < length; at++)
        fresh[at] = KINDS[field].default_value;
    arrays->values[block][field] = fresh;
    arrays->looks[block] = 0;
    return 0;
}

/* The same for the exchange, which has something for a block. */
static int reached(void *context, uint32_t block, uint32_t field)
{
    ((struct arrays *)context)->came++;
    return allocate(context, block, field);
}

static void give_back(struct arrays *arrays, uint32_t block, uint32_t field)
{
    free(arrays->values[block][field]);
    arrays->values[block][field] = NULL;
}

static size_t place(int x, int y, int z)
{
    return (size_t)(((z + NG) * WY + y + NG) * WX + x + NG);
}

/* What a component of a field has in a cell of the box at a step. */
static double truth(uint32_t field, uint32_t component, int step, uint32_t block, int x, int y, int z)
{
    /* Where it was at the beginning. */
    int u = (int)((uint32_t)((int)block % BX * NX + x - step + STEPS * BX * NX) % (BX * NX));
    int v = (int)((uint32_t)((int)block / BX % BY * NY + y - step + STEPS * BY * NY) % (BY * NY));
    int w = (int)((uint32_t)((int)block / (BX * BY) * NZ + z - step + STEPS * BZ * NZ) % (BZ * NZ));
    if (field == HEAT)
        return 1.0 / (1 + u) + 10.0 / (3 + v) + 100.0 / (7 + w);
    return u < SIDE && v < SIDE && w < SIDE ? 1.0 + component + u / 3.0 + v / 7.0 + w / 11.0 : DEFAULT;
}

/* Where everything is at the beginning: a block has the dye if some of it is inside. */
static void begin(struct arrays *arrays, struct box *box, uint32_t rank)
{
    uint32_t block, field, component;
    int x, y, z;
    for (block = 0; block < BLOCKS; block++) {
        if (owner(box, block) != rank)
            continue;
        for (field = 0; field < FIELDS; field++) {
            if (field == DYE && block != 0)
                continue;
            CHECK(allocate(arrays, block, field) == 0);
            for (component = 0; component < KINDS[field].components; component++)
                for (z = 0; z < NZ; z++)
                    for (y = 0; y < NY; y++)
                        for (x = 0; x < NX; x++)
                            arrays->values[block][field][component * CELLS + place(x, y, z)] =
                                truth(field, component, 0, block, x, y, z);
        }
    }
}

/* Moves what is in a block by one cell along each axis: from the end, as each cell comes from one before it. */
static void move(double *array)
{
    int x, y, z;
    for (z = NZ - 1; z >= 0; z--)
        for (y = NY - 1; y >= 0; y--)
            for (x = NX - 1; x >= 0; x--)
                array[place(x, y, z)] = array[place(x - 1, y - 1, z - 1)];
}

/* Every cell of every block of this rank has its bits; where the dye is absent there is none. Blocks that have it. */
static int verify(const struct arrays *arrays, struct box *box, uint32_t rank, int step)
{
    uint32_t block, field, component;
    int x, y, z, present = 0;
    for (block = 0; block < BLOCKS; block++) {
        int mine = owner(box, block) == rank;
        CHECK(mine ? arrays->values[block][HEAT] != NULL : arrays->values[block][HEAT] == NULL);
        CHECK(mine || arrays->values[block][DYE] == NULL);
        if (!mine)
            continue;
        present += arrays->values[block][DYE] != NULL;
        for (field = 0; field < FIELDS; field++)
            for (component = 0; component < KINDS[field].components; component++)
                for (z = 0; z < NZ; z++)
                    for (y = 0; y < NY; y++)
                        for (x = 0; x < NX; x++) {
                            const double *array = arrays->values[block][field];
                            double has = array ? array[component * CELLS + place(x, y, z)] : KINDS[field].default_value;
                            double should = truth(field, component, step, block, x, y, z);
                            CHECK(memcmp(&has, &should, sizeof has) == 0);
                        }
    }
    return present;
}

/* The same exchange as umbra_boundary_exchange, in steps; a program computes between sending and receiving. */
static void in_steps(umbra_boundary boundary, const struct umbra_arrays *view)
{
    int sent = 0, here = 0;
    must(umbra_boundary_start_receive(boundary, UMBRA_SCOPE_ANY));
    while (!sent) {
        must(umbra_boundary_send(boundary, view, UMBRA_SCOPE_ANY, &sent));
        must(umbra_boundary_receive(boundary, view, UMBRA_SCOPE_NONLOCAL, &here));
    }
    for (here = 0; !here;)
        must(umbra_boundary_receive(boundary, view, UMBRA_SCOPE_ANY, &here));
    must(umbra_boundary_set(boundary, view, UMBRA_SCOPE_ANY));
}

/* All blocks go to the next rank with their arrays and looks. A block at a time, in one order everywhere, so nobody waits in a
 * circle. */
static void deal_anew(umbra_boundary boundary, struct arrays *arrays, struct box *box, uint32_t rank)
{
    struct box before = *box;
    struct umbra_mesh mesh;
    uint32_t block, field, told_of[FIELDS + 1];
    box->shift++;
    for (block = 0; block < BLOCKS; block++) {
        uint32_t from = owner(&before, block), to = owner(box, block);
        if (from == to || (from != rank && to != rank))
            continue;
        for (field = 0; field < FIELDS; field++)
            told_of[field] = arrays->values[block][field] != NULL;
        told_of[FIELDS] = arrays->looks[block];
        if (from == rank)
            MPI_Send(told_of, FIELDS + 1, MPI_UINT32_T, (int)to, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(told_of, FIELDS + 1, MPI_UINT32_T, (int)from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (field = 0; field < FIELDS; field++) {
            if (!told_of[field])
                continue;
            if (from == rank) {
                MPI_Send(arrays->values[block][field], (int)length_of(field), MPI_DOUBLE, (int)to, 1, MPI_COMM_WORLD);
                give_back(arrays, block, field);
            } else {
                CHECK(allocate(arrays, block, field) == 0);
                MPI_Recv(arrays->values[block][field], (int)length_of(field), MPI_DOUBLE, (int)from, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            }
        }
        arrays->looks[block] = told_of[FIELDS];
    }
    mesh = mesh_of(box);
    must(umbra_boundary_remesh(boundary, &mesh));
}

/* Gives back the dye of blocks that it has left. */
static void look(umbra_boundary boundary, const struct umbra_arrays *view, struct arrays *arrays)
{
    uint32_t block;
    int idle;
    for (block = 0; block < BLOCKS; block++) {
        if (arrays->values[block][DYE] == NULL)
            continue;
        must(umbra_boundary_is_idle(boundary, view, block, DYE, &idle));
        arrays->looks[block] = idle ? arrays->looks[block] + 1 : 0;
        if (arrays->looks[block] == LOOKS) {
            give_back(arrays, block, DYE);
            arrays->went++;
        }
    }
}

static void run(uint32_t transport, uint32_t rank, uint32_t ranks)
{
    struct box box = {0, 0};
    struct umbra_mesh mesh;
    struct umbra_boundary_options options;
    struct umbra_boundary_statistics statistics;
    struct umbra_arrays view;
    struct arrays arrays;
    umbra_fabric fabric;
    umbra_boundary boundary;
    uint32_t block, field;
    int step, present = 0, counts[3], all[3];

    box.ranks = ranks;
    mesh = mesh_of(&box);
    memset(&arrays, 0, sizeof arrays);
    memset(&view, 0, sizeof view);
    view.size = sizeof view;
    view.values = values;
    view.allocate = reached;
    view.context = &arrays;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.timeout_ms = 60000;

    doing = "create a fabric";
    must(umbra_mpi_fabric_create(MPI_COMM_WORLD, &mesh, KINDS, FIELDS, transport, &fabric));
    doing = "build";
    must(umbra_boundary_build(fabric, rank, &mesh, &options, &boundary));
    begin(&arrays, &box, rank);
    for (step = 0; step < STEPS; step++) {
        doing = "compare";
        present += verify(&arrays, &box, rank, step);
        doing = "exchange";
        if (step % 2 == 0)
            must(umbra_boundary_exchange(boundary, &view));
        else
            in_steps(boundary, &view);
        for (block = 0; block < BLOCKS; block++)
            for (field = 0; field < FIELDS; field++)
                if (arrays.values[block][field] != NULL) {
                    uint32_t component;
                    for (component = 0; component < KINDS[field].components; component++)
                        move(arrays.values[block][field] + component * CELLS);
                }
        doing = "look";
        look(boundary, &view, &arrays);
        doing = "deal blocks anew";
        if (step % MOVES_EVERY == MOVES_EVERY - 1)
            deal_anew(boundary, &arrays, &box, rank);
    }
    doing = "the end";
    verify(&arrays, &box, rank, STEPS);
    memset(&statistics, 0, sizeof statistics);
    statistics.size = sizeof statistics;
    must(umbra_boundary_statistics(boundary, &statistics));
    CHECK(statistics.refused == 0 && (ranks == 1) == (statistics.messages == 0));
    must(umbra_boundary_release(boundary));
    must(umbra_mpi_fabric_free(fabric));
    /* The dye came and went, and was on less than half of the blocks. */
    counts[0] = arrays.came;
    counts[1] = arrays.went;
    counts[2] = present;
    MPI_Allreduce(counts, all, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all[0] > 8 && all[1] > 8 && 2 * all[2] < STEPS * BLOCKS);
    for (block = 0; block < BLOCKS; block++)
        for (field = 0; field < FIELDS; field++)
            give_back(&arrays, block, field);
    if (rank == 0)
        printf("%u ranks, %d steps: every bit is right; the dye came to %d blocks and left %d\n", (unsigned)ranks, STEPS, all[0],
               all[1]);
}

int main(int count, char **arguments)
{
    const char *transport = count > 1 ? arguments[1] : "slot";
    int rank, ranks;
    doing = "begin";
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(strcmp(transport, "slot") == 0 || strcmp(transport, "rma") == 0 || strcmp(transport, "nodes") == 0);
    run(strcmp(transport, "rma") == 0     ? UMBRA_MPI_RMA
        : strcmp(transport, "nodes") == 0 ? UMBRA_MPI_NODES
                                          : UMBRA_MPI_SLOT,
        (uint32_t)rank, (uint32_t)ranks);
    MPI_Finalize();
    return 0;
}
