/* The modes of the peer of the bench `boundary` whose messages go through memory that others reach. */
#include "over_mpi.h"

#include <stdatomic.h>

/* Bytes of a ring at most, of a piece that is shown at once, and of a line. */
enum { RING_MOST = 256 * 1024, PIECE = 32 * 1024, LINE = 64 };

/* Bytes in memory that both share. */

struct bytes_ring {
    _Atomic uint64_t written;
    char line[LINE - sizeof(uint64_t)];
    _Atomic uint64_t read;
    char another[LINE - sizeof(uint64_t)];
    char data[];
};

/* How far a message has got. */
struct cursor {
    char *bits;
    int begun, nth;
    size_t at;
};

static MPI_Win window;
static struct bytes_ring *to_ring[2], *from_ring[2];
static char *bits;
static size_t ring_len;

static size_t ring_stride(void)
{
    return sizeof(struct bytes_ring) + ring_len;
}

static void open_ring(void)
{
    char *own, *theirs;
    open_whole();
    size_t len = quarter() < 4096 ? 4096 : quarter();
    ring_len = (len < RING_MOST ? len : RING_MOST) / LINE * LINE;
    bits = calloc(4, head());
    if (!bits || ring_len < head()) {
        MPI_Abort(comm, 4);
    }
    MPI_Win_allocate_shared(neighbours * (MPI_Aint)ring_stride(), 1, MPI_INFO_NULL, comm, &own, &window);
    memset(own, 0, neighbours * ring_stride());
    for (int k = 0; k < neighbours; k++) {
        MPI_Aint size;
        int unit;
        MPI_Win_shared_query(window, neighbour[k], &size, &unit, &theirs);
        from_ring[k] = (struct bytes_ring *)(own + k * ring_stride());
        /* I am on the other side of my neighbour. */
        to_ring[k] = (struct bytes_ring *)(theirs + (neighbours - 1 - k) * ring_stride());
    }
    MPI_Barrier(comm);
    need(neighbours * ring_len);
}

static void close_ring(void)
{
    MPI_Win_free(&window);
    free(bits);
    close_whole();
}

/* Copies between a place of a ring, which may go over its end, and memory. */
static void into_ring(struct bytes_ring *ring, uint64_t at, const char *data, size_t len)
{
    size_t first = at % ring_len, whole = ring_len - first < len ? ring_len - first : len;
    memcpy(ring->data + first, data, whole);
    memcpy(ring->data, data + whole, len - whole);
}

static void from_the_ring(struct bytes_ring *ring, uint64_t at, char *data, size_t len)
{
    size_t first = at % ring_len, whole = ring_len - first < len ? ring_len - first : len;
    memcpy(data, ring->data + first, whole);
    memcpy(data + whole, ring->data, len - whole);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Writes what there is room for; whether that was all. */
static int push(long turn, int k, struct cursor *cursor)
{
    struct bytes_ring *ring = to_ring[k];
    uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    uint64_t room = ring_len - (written - atomic_load_explicit(&ring->read, memory_order_acquire));
    if (!cursor->begun) {
        if (room < head()) {
            return 0;
        }
        memset(cursor->bits, 0, head());
        for (int n = 0; n < count; n++) {
            if (live(turn, me, outgoing(k, n))) {
                touch(turn, outgoing(k, n));
                cursor->bits[n / 8] |= (char)(1 << n % 8);
            }
        }
        into_ring(ring, written, cursor->bits, head());
        written += head();
        room -= head();
        cursor->begun = 1;
        atomic_store_explicit(&ring->written, written, memory_order_release);
    }
    for (; cursor->nth < count; cursor->nth++, cursor->at = 0) {
        if (!(cursor->bits[cursor->nth / 8] >> cursor->nth % 8 & 1)) {
            continue;
        }
        while (cursor->at < bytes) {
            size_t len = least(least(bytes - cursor->at, room), PIECE);
            if (!len) {
                return 0;
            }
            into_ring(ring, written, from + outgoing(k, cursor->nth) * bytes + cursor->at, len);
            written += len;
            room -= len;
            cursor->at += len;
            atomic_store_explicit(&ring->written, written, memory_order_release);
        }
    }
    return 1;
}

/* Sets what there is; whether that was all. */
static int pull(long turn, int k, struct cursor *cursor)
{
    struct bytes_ring *ring = from_ring[k];
    uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    uint64_t there = atomic_load_explicit(&ring->written, memory_order_acquire) - read;
    if (!cursor->begun) {
        if (there < head()) {
            return 0;
        }
        from_the_ring(ring, read, cursor->bits, head());
        read += head();
        there -= head();
        cursor->begun = 1;
        atomic_store_explicit(&ring->read, read, memory_order_release);
    }
    for (; cursor->nth < count; cursor->nth++, cursor->at = 0) {
        int is = cursor->bits[cursor->nth / 8] >> cursor->nth % 8 & 1;
        while (is && cursor->at < bytes) {
            size_t len = least(bytes - cursor->at, there);
            if (!len) {
                return 0;
            }
            from_the_ring(ring, read, to + incoming(k, cursor->nth) * bytes + cursor->at, len);
            read += len;
            there -= len;
            cursor->at += len;
            atomic_store_explicit(&ring->read, read, memory_order_release);
        }
        check(turn, incoming(k, cursor->nth), is);
    }
    return 1;
}

static void exchange_ring(long turn)
{
    struct cursor going[2], coming[2];
    int gone[2] = {0, 0}, came[2] = {0, 0}, all = 0;
    for (int k = 0; k < neighbours; k++) {
        going[k] = (struct cursor){.bits = bits + k * head()};
        coming[k] = (struct cursor){.bits = bits + (2 + k) * head()};
    }
    while (!all) {
        all = 1;
        for (int k = 0; k < neighbours; k++) {
            gone[k] = gone[k] || push(turn, k, &going[k]);
            came[k] = came[k] || pull(turn, k, &coming[k]);
            all = all && gone[k] && came[k];
        }
        if (!all) {
            idle();
        }
    }
}

/* One-sided calls of MPI. */

static char *put_into;
static size_t put_stride;
static uint64_t told[2];

static void open_rma(void)
{
    open_whole();
    put_stride = (LINE + head() + count * bytes + LINE - 1) / LINE * LINE;
    MPI_Win_allocate(2 * neighbours * (MPI_Aint)put_stride, 1, MPI_INFO_NULL, comm, &put_into, &window);
    memset(put_into, 0, 2 * neighbours * put_stride);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(comm);
    need(2 * neighbours * put_stride);
}

static void close_rma(void)
{
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    close_whole();
}

static void exchange_rma(long turn)
{
    int flag, missing = neighbours, done[2] = {0, 0};
    for (int k = 0; k < neighbours; k++) {
        size_t len = pack(turn, k, part(out, k));
        MPI_Aint at = (2 * (neighbours - 1 - k) + turn % 2) * (MPI_Aint)put_stride;
        MPI_Put(part(out, k), (int)len, MPI_BYTE, neighbour[k], at + LINE, (int)len, MPI_BYTE, window);
        MPI_Win_flush(neighbour[k], window);
        told[k] = (uint64_t)turn;
        MPI_Put(&told[k], 8, MPI_BYTE, neighbour[k], at, 8, MPI_BYTE, window);
        MPI_Win_flush(neighbour[k], window);
    }
    for (long looks = 1; missing; looks++) {
        for (int k = 0; k < neighbours; k++) {
            char *at = put_into + (2 * k + turn % 2) * put_stride;
            if (done[k] || atomic_load_explicit((_Atomic uint64_t *)at, memory_order_acquire) != (uint64_t)turn) {
                continue;
            }
            unpack(turn, k, at + LINE, NULL, SIZE_MAX);
            done[k] = 1;
            missing--;
        }
        if (missing && looks % 64 == 0) {
            /* Where the library needs a call to carry what others have put. */
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
            idle();
        }
    }
}

const struct mode ring = {"ring", open_ring, NULL, exchange_ring, NULL, close_ring};
const struct mode rma = {"rma", open_rma, NULL, exchange_rma, NULL, close_rma};
