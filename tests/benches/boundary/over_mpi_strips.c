/* The modes of the peer of the bench `boundary` that have a message for each strip. */
#include "over_mpi.h"

static MPI_Request *receives, *sends;
static MPI_Status *statuses;
static int *indices;
/* What became of a strip: nothing, it is on its way, it was set. */
static char *states;
enum { MISSING, COMING, SET };

static void open_strips(void)
{
    receives = calloc(channels, sizeof *receives);
    sends = calloc(channels, sizeof *sends);
    statuses = calloc(channels, sizeof *statuses);
    indices = calloc(channels, sizeof *indices);
    states = calloc(channels, 1);
    if (!receives || !sends || !statuses || !indices || !states) {
        MPI_Abort(comm, 4);
    }
}

static void close_strips(void)
{
    free(receives);
    free(sends);
    free(statuses);
    free(indices);
    free(states);
}

static void post(void)
{
    for (int c = 0; c < channels; c++) {
        MPI_Irecv(in + c * bytes, (int)bytes, MPI_BYTE, sender_of(c), c, comm, &receives[c]);
    }
    need(channels * bytes);
}

static void cancel(void)
{
    for (int c = 0; c < channels; c++) {
        MPI_Cancel(&receives[c]);
        MPI_Wait(&receives[c], MPI_STATUS_IGNORE);
    }
}

static void send_strips(long turn)
{
    for (int c = 0; c < channels; c++) {
        int is = live(turn, me, c);
        if (is) {
            touch(turn, c);
            memcpy(out + c * bytes, from + c * bytes, bytes);
        }
        MPI_Isend(out + c * bytes, is ? (int)bytes : 0, MPI_BYTE, receiver_of(c), c, comm, &sends[c]);
    }
}

static void take(long turn, int channel, const char *at, MPI_Status *status)
{
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (count) {
        memcpy(to + channel * bytes, at, bytes);
    }
    check(turn, channel, count != 0);
}

static void exchange_early(long turn)
{
    MPI_Status status;
    int flag, missing = channels;
    send_strips(turn);
    memset(states, MISSING, channels);
    while (missing) {
        for (int c = 0; c < channels; c++) {
            if (states[c] == SET) {
                continue;
            }
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
            MPI_Test(&receives[c], &flag, &status);
            if (flag) {
                take(turn, c, in + c * bytes, &status);
                states[c] = SET;
                missing--;
            }
        }
    }
    post();
    MPI_Waitall(channels, sends, MPI_STATUSES_IGNORE);
}

static void take_some(long turn)
{
    int ready;
    send_strips(turn);
    for (int missing = channels; missing; missing -= ready) {
        MPI_Testsome(channels, receives, &ready, indices, statuses);
        for (int nth = 0; nth < ready; nth++) {
            take(turn, indices[nth], in + indices[nth] * bytes, &statuses[nth]);
        }
    }
}

static void exchange_some(long turn)
{
    take_some(turn);
    post();
    MPI_Waitall(channels, sends, MPI_STATUSES_IGNORE);
}

static void open_persist(void)
{
    open_strips();
    for (int c = 0; c < channels; c++) {
        MPI_Recv_init(in + c * bytes, (int)bytes, MPI_BYTE, sender_of(c), c, comm, &receives[c]);
    }
    need(channels * bytes);
}

static void start(void)
{
    MPI_Startall(channels, receives);
}

static void close_persist(void)
{
    for (int c = 0; c < channels; c++) {
        MPI_Request_free(&receives[c]);
    }
    close_strips();
}

static void exchange_persist(long turn)
{
    take_some(turn);
    start();
    MPI_Waitall(channels, sends, MPI_STATUSES_IGNORE);
}

static void exchange_probe(long turn)
{
    MPI_Status status;
    int flag, count, missing = channels;
    size_t used = 0;
    send_strips(turn);
    memset(states, MISSING, channels);
    while (missing) {
        for (int c = 0; c < channels; c++) {
            if (states[c] == MISSING) {
                MPI_Iprobe(sender_of(c), c, comm, &flag, &status);
                if (!flag) {
                    continue;
                }
                MPI_Get_count(&status, MPI_BYTE, &count);
                /* Where it will be found again. */
                indices[c] = (int)(used / bytes);
                MPI_Irecv(in + used, count, MPI_BYTE, sender_of(c), c, comm, &receives[c]);
                used += (size_t)count;
                states[c] = COMING;
            }
            if (states[c] == COMING) {
                MPI_Test(&receives[c], &flag, &status);
                if (flag) {
                    take(turn, c, in + indices[c] * bytes, &status);
                    states[c] = SET;
                    missing--;
                }
            }
        }
    }
    need(used);
    MPI_Waitall(channels, sends, MPI_STATUSES_IGNORE);
}

const struct mode early = {"early", open_strips, post, exchange_early, cancel, close_strips};
const struct mode some = {"some", open_strips, post, exchange_some, cancel, close_strips};
const struct mode persist = {"persist", open_persist, start, exchange_persist, cancel, close_persist};
const struct mode probe = {"probe", open_strips, NULL, exchange_probe, NULL, close_strips};
