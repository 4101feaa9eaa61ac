/* What the modes of the peer of the bench `boundary` share. */
#ifndef OVER_MPI_H
#define OVER_MPI_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A way to exchange. `open` and `close` stand around all exchanges, `begin` and `end` around a batch; each may be
 * absent. */
struct mode {
    const char *name;
    void (*open)(void);
    void (*begin)(void);
    void (*exchange)(long turn);
    void (*end)(void);
    void (*close)(void);
};

/* With a message for each strip, and with one or two for each neighbour. */
extern const struct mode early, some, persist, probe;
extern const struct mode coalesced, slot, ring, rma;

extern MPI_Comm comm;
/* Two ranks are neighbours of each other; more stand in a ring, and each has the next one and the one before. */
extern int me, ranks, neighbours, neighbour[2];
/* Strips of a rank, and bytes of each. */
extern int channels;
extern size_t bytes;
/* The strips, to send and as they came; and buffers as large, with room for heads. */
extern char *from, *to, *out, *in;

/* One strip in ten holds something. */
int live(long turn, int sender, int channel);
/* New values in a strip. */
void touch(long turn, int channel);
/* Aborts unless what came of a strip is what its sender had. */
void check(long turn, int channel, int came);
/* Notes the most bytes that were kept to receive into. */
void need(size_t memory);
/* Lets others run where there are more ranks than processors. */
void idle(void);

/* A rank deals its strips to its neighbours in turns. */
static inline int receiver_of(int channel)
{
    return neighbour[channel % neighbours];
}

/* What goes to the next one comes from the one before. */
static inline int sender_of(int channel)
{
    return neighbour[neighbours - 1 - channel % neighbours];
}

/* What those share that have a whole message for each neighbour: strips of each, and what stands around exchanges. */
extern int count;
void open_whole(void);
void close_whole(void);
/* Bitmap and strips for a neighbour; how long that is. */
size_t pack(long turn, int k, char *message);
/* Sets the strips of a message, of which what is behind `capacity` lies elsewhere. */
void unpack(long turn, int k, const char *message, const char *behind, size_t capacity);

/* Strips to a neighbour, and from it. */
static inline int outgoing(int k, int nth)
{
    return k + nth * neighbours;
}

static inline int incoming(int k, int nth)
{
    return neighbours - 1 - k + nth * neighbours;
}

/* Bytes of payload, and a bit for each strip. */
static inline size_t head(void)
{
    return 8 + (size_t)(count + 63) / 64 * 8;
}

/* Where the message to or from a neighbour lies, each as large as all its strips and a head. */
static inline char *part(char *of, int k)
{
    return of + k * (head() + count * bytes);
}

/* Bytes of a message that is not larger than a quarter of all strips. */
static inline size_t quarter(void)
{
    return head() + count * bytes / 4;
}

#endif
