/* Exchanges of mostly empty strips over MPI, as mesh codes do them: the peer of the bench `boundary`.
 *
 * Two ranks, or more in a ring, and CHANNELS strips that each sends to its neighbours. In each exchange a mask that
 * both sides compute says which strips hold nothing. A strip that holds something is packed from an array, travels, and
 * is set into an array; of the others the receiver learns that there is nothing. Both are checked in every exchange,
 * inside the measured time, as the bench does it on our side.
 *
 *  early      a receive for each strip, posted before anybody sends, and an empty message where there is nothing; then
 *             Iprobe and Test for each strip that is still missing
 *  some       the same, and one Testsome for all that are missing
 *  persist    the same with persistent requests to receive
 *  probe      Iprobe for each strip, and a receive of what it found
 *  coalesced  two messages a neighbour: which strips hold something, and these, gathered by one more copy on each side
 *  slot       one message a neighbour with a bitmap into one early posted receive of a quarter of all strips; what
 *             does not fit follows in a second one
 *  ring       bytes in memory that both share, and no call of MPI on their way
 *  rma        one MPI_Put a neighbour of bitmap and strips into a window as large as all of them, and one of a word
 *             that says so
 *
 * over_mpi CHANNELS BYTES BATCHES EXCHANGES MODE... prints for each mode: name, tenth percentile and median in
 * microseconds of an exchange, and the most bytes that were kept to receive into: as they are, and in whole pages.
 */
#include "over_mpi.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

MPI_Comm comm;
int me, ranks, neighbours, neighbour[2], channels;
size_t bytes;
char *from, *to, *out, *in;

static size_t held;
static long processors;

static const struct mode *const modes[] = {&early, &some, &persist, &probe, &coalesced, &slot, &ring, &rma};

int live(long turn, int sender, int channel)
{
    uint64_t x = (uint64_t)turn * 0x9E3779B97F4A7C15ull ^ ((uint64_t)sender << 40) ^ ((uint64_t)channel << 20);
    x ^= x >> 31;
    x *= 0xBF58476D1CE4E5B9ull;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBull;
    x ^= x >> 31;
    return x % 100 >= 90;
}

static double mark(long turn, int sender, int channel)
{
    return turn * 1e6 + sender * 4096.0 + channel + 1;
}

void touch(long turn, int channel)
{
    double value = mark(turn, me, channel);
    memcpy(from + channel * bytes, &value, 8);
    memcpy(from + (channel + 1) * bytes - 8, &value, 8);
}

void check(long turn, int channel, int came)
{
    int sender = sender_of(channel);
    double first, last, value = mark(turn, sender, channel);
    if (came != live(turn, sender, channel)) {
        MPI_Abort(comm, 2);
    }
    if (came) {
        memcpy(&first, to + channel * bytes, 8);
        memcpy(&last, to + (channel + 1) * bytes - 8, 8);
        if (first != value || last != value) {
            MPI_Abort(comm, 3);
        }
    }
}

void need(size_t memory)
{
    held = memory > held ? memory : held;
}

void idle(void)
{
    if (ranks > processors) {
        sched_yield();
    }
}

static void call(void (*step)(void))
{
    if (step) {
        step();
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void usage(void)
{
    fprintf(stderr, "usage: two ranks or more of over_mpi CHANNELS BYTES BATCHES EXCHANGES MODE...\n");
    MPI_Abort(comm, 1);
}

static const struct mode *named(const char *name)
{
    for (size_t n = 0; n < sizeof modes / sizeof *modes; n++) {
        if (!strcmp(modes[n]->name, name)) {
            return modes[n];
        }
    }
    usage();
    return NULL;
}

static void measure(const struct mode *mode, int batches, int exchanges, double *times)
{
    static long turn = 1;
    held = 0;
    call(mode->open);
    /* The first batch warms up. */
    for (int batch = -1; batch < batches; batch++) {
        call(mode->begin);
        MPI_Barrier(comm);
        double begun = MPI_Wtime();
        for (int n = 0; n < exchanges; n++, turn++) {
            mode->exchange(turn);
        }
        MPI_Barrier(comm);
        if (batch >= 0) {
            times[batch] = (MPI_Wtime() - begun) / exchanges * 1e6;
        }
        call(mode->end);
        MPI_Barrier(comm);
    }
    call(mode->close);
    qsort(times, batches, sizeof *times, by_value);
    if (!me) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (held + page - 1) / page * page;
        printf("%s %.3f %.3f %zu %zu\n", mode->name, times[batches / 10], times[batches / 2], held, pages);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &ranks);
    processors = sysconf(_SC_NPROCESSORS_ONLN);
    neighbours = ranks == 2 ? 1 : 2;
    neighbour[0] = (me + 1) % ranks;
    neighbour[1] = (me + ranks - 1) % ranks;
    if (argc < 6 || ranks < 2) {
        usage();
    }
    channels = atoi(argv[1]);
    bytes = (size_t)atol(argv[2]);
    int batches = atoi(argv[3]), exchanges = atoi(argv[4]);
    if (channels < 1 || channels % neighbours || bytes < 8 || bytes % 8 || batches < 1 || exchanges < 1) {
        usage();
    }
    /* A head has a word, a bit a strip, or a number a strip. */
    size_t all = channels * bytes + 2 * 64 + channels * 8;
    from = calloc(1, all);
    to = calloc(1, all);
    out = calloc(1, all);
    in = calloc(1, all);
    double *times = calloc(batches, sizeof *times);
    if (!from || !to || !out || !in || !times) {
        MPI_Abort(comm, 4);
    }
    for (int n = 5; n < argc; n++) {
        measure(named(argv[n]), batches, exchanges, times);
    }
    MPI_Finalize();
    return 0;
}
