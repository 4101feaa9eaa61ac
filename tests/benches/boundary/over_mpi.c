/* Exchanges of mostly empty strips over MPI, as mesh codes do them: the peer of the bench `boundary`.
 *
 * Pairs of ranks, CHANNELS strips each way. In each exchange a mask that both sides compute says which strips hold nothing. A
 * strip that holds something is packed from an array, travels, and is set into an array; of the others the receiver learns
 * that there is nothing. Both are checked in every exchange, inside the measured time, as the bench does it on our side.
 *
 *  early   a receive for each channel, posted before anybody sends, and an empty message where there is nothing; then
 *          Iprobe and Test for each channel that is still missing
 *  some    the same, and one Testsome for all that are missing
 *  slot    one message with a bitmap into one early posted receive of a quarter of all strips; what does not fit
 *          follows in a second one
 *
 * over_mpi CHANNELS BYTES BATCHES EXCHANGES prints for each mode: name, tenth percentile and median in microseconds of an
 * exchange, and the most bytes that were kept to receive into: as they are, and in whole pages.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EARLY, SOME, SLOT, MODES };
static const char *const names[MODES] = {"early", "some", "slot"};

static MPI_Comm comm;
static int me, other, channels;
static size_t bytes, capacity, held;
static char *from, *to, *out, *in, *rest;
static MPI_Request *receives, *sends, slot;
static MPI_Status *statuses;
static int *indices;
static char *done;

/* One strip in ten holds something. */
static int live(long turn, int sender, int channel)
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

static void touch(long turn, int channel)
{
    double value = mark(turn, me, channel);
    memcpy(from + channel * bytes, &value, 8);
    memcpy(from + (channel + 1) * bytes - 8, &value, 8);
}

static void check(long turn, int channel, int came)
{
    double first, last, value = mark(turn, other, channel);
    if (came != live(turn, other, channel)) {
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

static void need(size_t memory)
{
    held = memory > held ? memory : held;
}

static void post(int mode)
{
    if (mode == SLOT) {
        MPI_Irecv(in, (int)capacity, MPI_BYTE, other, channels, comm, &slot);
        need(capacity);
        return;
    }
    for (int c = 0; c < channels; c++) {
        MPI_Irecv(in + c * bytes, (int)bytes, MPI_BYTE, other, c, comm, &receives[c]);
    }
    need(channels * bytes);
}

/* A message for each strip. */
static void send_strips(long turn)
{
    for (int c = 0; c < channels; c++) {
        int is = live(turn, me, c);
        if (is) {
            touch(turn, c);
            memcpy(out + c * bytes, from + c * bytes, bytes);
        }
        MPI_Isend(out + c * bytes, is ? (int)bytes : 0, MPI_BYTE, other, c, comm, &sends[c]);
    }
}

static void take(long turn, int channel, MPI_Status *status)
{
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (count) {
        memcpy(to + channel * bytes, in + channel * bytes, bytes);
    }
    check(turn, channel, count != 0);
}

static void early(long turn)
{
    MPI_Status status;
    int flag, missing = channels;
    send_strips(turn);
    memset(done, 0, channels);
    while (missing) {
        for (int c = 0; c < channels; c++) {
            if (done[c]) {
                continue;
            }
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
            MPI_Test(&receives[c], &flag, &status);
            if (flag) {
                take(turn, c, &status);
                done[c] = 1;
                missing--;
            }
        }
    }
    post(EARLY);
    MPI_Waitall(channels, sends, MPI_STATUSES_IGNORE);
}

static void some(long turn)
{
    int ready;
    send_strips(turn);
    for (int missing = channels; missing; missing -= ready) {
        MPI_Testsome(channels, receives, &ready, indices, statuses);
        for (int nth = 0; nth < ready; nth++) {
            take(turn, indices[nth], &statuses[nth]);
        }
    }
    post(SOME);
    MPI_Waitall(channels, sends, MPI_STATUSES_IGNORE);
}

/* Bytes of payload, a bit for each channel, payloads. */
static size_t head(void)
{
    return 8 + (channels + 63) / 64 * 8;
}

static void one_message(long turn)
{
    size_t end = head(), at = head();
    int sent = 1, flag = 0;
    memset(out, 0, end);
    for (int c = 0; c < channels; c++) {
        if (live(turn, me, c)) {
            touch(turn, c);
            out[8 + c / 8] |= (char)(1 << c % 8);
            memcpy(out + end, from + c * bytes, bytes);
            end += bytes;
        }
    }
    memcpy(out, &end, 8);
    MPI_Isend(out, (int)(end < capacity ? end : capacity), MPI_BYTE, other, channels, comm, &sends[0]);
    if (end > capacity) {
        MPI_Isend(out + capacity, (int)(end - capacity), MPI_BYTE, other, channels + 1, comm, &sends[sent++]);
    }
    while (!flag) {
        MPI_Test(&slot, &flag, MPI_STATUS_IGNORE);
    }
    memcpy(&end, in, 8);
    if (end > capacity) {
        MPI_Recv(rest, (int)(end - capacity), MPI_BYTE, other, channels + 1, comm, MPI_STATUS_IGNORE);
        need(end);
    }
    for (int c = 0; c < channels; c++) {
        int is = in[8 + c / 8] >> c % 8 & 1;
        if (is) {
            size_t here = at >= capacity ? 0 : capacity - at < bytes ? capacity - at : bytes;
            memcpy(to + c * bytes, in + at, here);
            memcpy(to + c * bytes + here, rest + (at + here - capacity), bytes - here);
            at += bytes;
        }
        check(turn, c, is);
    }
    post(SLOT);
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);
}

static void cancel(MPI_Request *request)
{
    MPI_Cancel(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    int ranks;
    long turn = 1;
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &ranks);
    if (argc != 5 || ranks % 2) {
        fprintf(stderr, "usage: pairs of ranks of over_mpi CHANNELS BYTES BATCHES EXCHANGES\n");
        MPI_Abort(comm, 1);
    }
    other = me ^ 1;
    channels = atoi(argv[1]);
    bytes = (size_t)atol(argv[2]);
    int batches = atoi(argv[3]), exchanges = atoi(argv[4]);
    size_t all = channels * bytes + head();
    capacity = head() + channels * bytes / 4;
    from = calloc(1, all);
    to = calloc(1, all);
    out = calloc(1, all);
    in = calloc(1, all);
    rest = calloc(1, all);
    done = calloc(1, channels);
    statuses = calloc(channels, sizeof *statuses);
    indices = calloc(channels, sizeof *indices);
    receives = calloc(channels, sizeof *receives);
    sends = calloc(channels + 2, sizeof *sends);
    double *times = calloc(batches, sizeof *times);
    for (int mode = 0; mode < MODES; mode++) {
        held = 0;
        /* The first batch warms up. */
        for (int batch = -1; batch < batches; batch++) {
            post(mode);
            MPI_Barrier(comm);
            double begun = MPI_Wtime();
            for (int n = 0; n < exchanges; n++, turn++) {
                mode == EARLY ? early(turn) : mode == SOME ? some(turn) : one_message(turn);
            }
            MPI_Barrier(comm);
            if (batch >= 0) {
                times[batch] = (MPI_Wtime() - begun) / exchanges * 1e6;
            }
            for (int c = 0; mode != SLOT && c < channels; c++) {
                cancel(&receives[c]);
            }
            if (mode == SLOT) {
                cancel(&slot);
            }
            MPI_Barrier(comm);
        }
        qsort(times, batches, sizeof *times, by_value);
        if (!me) {
            size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (held + page - 1) / page * page;
            printf("%s %.3f %.3f %zu %zu\n", names[mode], times[batches / 10], times[batches / 2], held, pages);
        }
    }
    MPI_Finalize();
    return 0;
}
