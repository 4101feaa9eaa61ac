/* The modes of the peer of the bench `boundary` that have one message for each neighbour, or two. */
#include "over_mpi.h"

enum { WHOLE, REST, FLAGS };

int count;
static MPI_Request posted[2], sends[4];
static char *rest[2];

void open_whole(void)
{
    count = channels / neighbours;
    for (int k = 0; k < neighbours; k++) {
        rest[k] = calloc(count + 1, bytes);
        if (!rest[k]) {
            MPI_Abort(comm, 4);
        }
    }
}

void close_whole(void)
{
    for (int k = 0; k < neighbours; k++) {
        free(rest[k]);
    }
}

static void cancel(void)
{
    for (int k = 0; k < neighbours; k++) {
        MPI_Cancel(&posted[k]);
        MPI_Wait(&posted[k], MPI_STATUS_IGNORE);
    }
}

size_t pack(long turn, int k, char *message)
{
    size_t end = head();
    memset(message, 0, end);
    for (int n = 0; n < count; n++) {
        int c = outgoing(k, n);
        if (live(turn, me, c)) {
            touch(turn, c);
            message[8 + n / 8] |= (char)(1 << n % 8);
            memcpy(message + end, from + c * bytes, bytes);
            end += bytes;
        }
    }
    memcpy(message, &end, 8);
    return end;
}

void unpack(long turn, int k, const char *message, const char *behind, size_t capacity)
{
    size_t at = head();
    for (int n = 0; n < count; n++) {
        int c = incoming(k, n), is = message[8 + n / 8] >> n % 8 & 1;
        if (is) {
            size_t here = at >= capacity ? 0 : capacity - at < bytes ? capacity - at : bytes;
            memcpy(to + c * bytes, message + at, here);
            if (here < bytes) {
                memcpy(to + c * bytes + here, behind + (at + here - capacity), bytes - here);
            }
            at += bytes;
        }
        check(turn, c, is);
    }
}

/* One message into a slot. */

static void post_slot(int k)
{
    MPI_Irecv(part(in, k), (int)quarter(), MPI_BYTE, neighbour[k], WHOLE, comm, &posted[k]);
}

static void post_slots(void)
{
    for (int k = 0; k < neighbours; k++) {
        post_slot(k);
    }
    need(neighbours * quarter());
}

static void exchange_slot(long turn)
{
    int sent = 0, flag, missing = neighbours, done[2] = {0, 0};
    size_t capacity = quarter(), fetched = 0, end;
    for (int k = 0; k < neighbours; k++) {
        char *message = part(out, k);
        size_t len = pack(turn, k, message);
        MPI_Isend(message, (int)(len < capacity ? len : capacity), MPI_BYTE, neighbour[k], WHOLE, comm, &sends[sent++]);
        if (len > capacity) {
            MPI_Isend(message + capacity, (int)(len - capacity), MPI_BYTE, neighbour[k], REST, comm, &sends[sent++]);
        }
    }
    while (missing) {
        for (int k = 0; k < neighbours; k++) {
            if (done[k]) {
                continue;
            }
            MPI_Test(&posted[k], &flag, MPI_STATUS_IGNORE);
            if (!flag) {
                continue;
            }
            memcpy(&end, part(in, k), 8);
            if (end > capacity) {
                MPI_Recv(rest[k], (int)(end - capacity), MPI_BYTE, neighbour[k], REST, comm, MPI_STATUS_IGNORE);
                fetched += end - capacity;
            }
            unpack(turn, k, part(in, k), rest[k], capacity);
            post_slot(k);
            done[k] = 1;
            missing--;
        }
    }
    need(neighbours * capacity + fetched);
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);
}

/* Two messages, with a buffer for each strip on both sides, too. */

static char *flags, *flags_in, *strips;

static void post_flags(int k)
{
    MPI_Irecv(flags_in + k * count, count, MPI_BYTE, neighbour[k], FLAGS, comm, &posted[k]);
}

static void open_coalesced(void)
{
    open_whole();
    flags = calloc(channels, 1);
    flags_in = calloc(channels, 1);
    strips = calloc(channels, bytes);
    if (!flags || !flags_in || !strips) {
        MPI_Abort(comm, 4);
    }
}

static void begin_coalesced(void)
{
    for (int k = 0; k < neighbours; k++) {
        post_flags(k);
    }
}

static void close_coalesced(void)
{
    free(flags);
    free(flags_in);
    free(strips);
    close_whole();
}

/* Gathers what a neighbour gets; how long that is, a byte at least, so that there is a message. */
static size_t gather(long turn, int k)
{
    char *message = part(out, k);
    size_t end = 0;
    for (int n = 0; n < count; n++) {
        int c = outgoing(k, n);
        flags[k * count + n] = (char)live(turn, me, c);
        if (flags[k * count + n]) {
            touch(turn, c);
            memcpy(strips + c * bytes, from + c * bytes, bytes);
        }
    }
    for (int n = 0; n < count; n++) {
        if (flags[k * count + n]) {
            memcpy(message + end, strips + outgoing(k, n) * bytes, bytes);
            end += bytes;
        }
    }
    return end ? end : 1;
}

/* Hands what came to a buffer for each strip, and sets that; the bytes of these. */
static size_t scatter(long turn, int k)
{
    size_t at = 0;
    for (int n = 0; n < count; n++) {
        int c = incoming(k, n), is = flags_in[k * count + n];
        if (is) {
            memcpy(rest[k] + n * bytes, part(in, k) + at, bytes);
            memcpy(to + c * bytes, rest[k] + n * bytes, bytes);
            at += bytes;
        }
        check(turn, c, is);
    }
    return at;
}

static void exchange_coalesced(long turn)
{
    enum { NOTHING, COMING, HERE, DONE } states[2] = {NOTHING, NOTHING};
    int known[2] = {0, 0}, sent = 0, flag, len, missing = neighbours;
    size_t memory = channels;
    MPI_Request data[2];
    MPI_Status status;
    for (int k = 0; k < neighbours; k++) {
        size_t end = gather(turn, k);
        MPI_Isend(part(out, k), (int)end, MPI_BYTE, neighbour[k], WHOLE, comm, &sends[sent++]);
        MPI_Isend(flags + k * count, count, MPI_BYTE, neighbour[k], FLAGS, comm, &sends[sent++]);
    }
    while (missing) {
        for (int k = 0; k < neighbours; k++) {
            if (states[k] == DONE) {
                continue;
            }
            if (!known[k]) {
                MPI_Test(&posted[k], &known[k], MPI_STATUS_IGNORE);
            }
            if (states[k] == NOTHING) {
                MPI_Iprobe(neighbour[k], WHOLE, comm, &flag, &status);
                if (flag) {
                    MPI_Get_count(&status, MPI_BYTE, &len);
                    MPI_Irecv(part(in, k), len, MPI_BYTE, neighbour[k], WHOLE, comm, &data[k]);
                    memory += (size_t)len;
                    states[k] = COMING;
                }
            }
            if (states[k] == COMING) {
                MPI_Test(&data[k], &flag, MPI_STATUS_IGNORE);
                states[k] = flag ? HERE : COMING;
            }
            if (states[k] == HERE && known[k]) {
                memory += scatter(turn, k);
                post_flags(k);
                states[k] = DONE;
                missing--;
            }
        }
    }
    need(memory);
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);
}

const struct mode coalesced = {"coalesced",        open_coalesced, begin_coalesced,
                              exchange_coalesced, cancel,         close_coalesced};
const struct mode slot = {"slot", open_whole, post_slots, exchange_slot, cancel, close_whole};
