/* umbra.h: the C interface of Umbra.
 *
 * A rank joins a job, gets groups, asks the endpoint cache who is where, exports memory, reads that of others, and leaves.
 * Slot caches decide which slot of the program's memory holds which data; pools share memory between processes of a host,
 * channels messages, and streams conversations; ranks of a mesh exchange ghost cells of their own arrays; chained calls run a
 * function on many processes and combine the answers. These need no job.
 *
 * Every function returns 0 or a negative code (-UMBRA_E...). Outputs come last; they, and buffers that bytes are copied to, are
 * written only on success, except that UMBRA_ESIZE stores the needed length and UMBRA_ECALL who failed, and where a function says
 * otherwise. Handles are 64-bit ids: one that was released is -UMBRA_ESTALE, never a crash.
 * Structures that may grow begin with their size, which the caller sets to sizeof. All functions may be called from any thread;
 * calls on one session take turns. Functions that are handed in return: none may throw, or leave by longjmp.
 */
#ifndef UMBRA_H
#define UMBRA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header; umbra_library_version tells that of the library. */
#define UMBRA_VERSION_MAJOR 0
#define UMBRA_VERSION_MINOR 1
#define UMBRA_VERSION_PATCH 0

/* Codes that travel between processes. */
#define UMBRA_OK 0
#define UMBRA_EBOUNDS 1             /* range outside the region */
#define UMBRA_EPERMISSION 2         /* region not exported with this right */
#define UMBRA_EREVOKED 3            /* region was revoked by its owner */
#define UMBRA_EKEY 4                /* key of an older generation */
#define UMBRA_EOWNER 5              /* owner of the region is gone */
#define UMBRA_ESHADOW 6             /* asker does not shadow the owner */
#define UMBRA_EREGION 7             /* no exported region covers this address */
#define UMBRA_EFULL 8               /* no room; the detail says for what: retry when something was released or has ended */
#define UMBRA_ETIMEOUT 9            /* deadline passed; the detail names who is missing */
#define UMBRA_EPEER 10              /* peer failed */
#define UMBRA_EMALFORMED 11         /* request is malformed */
#define UMBRA_EGROUP 12             /* unknown group */
#define UMBRA_ERANK 13              /* rank out of range */
#define UMBRA_EGENERATION 14        /* group generation is not current */
#define UMBRA_EDUPLICATE 15         /* rank is already held by another process */
#define UMBRA_ECONFLICT 16          /* description differs from what others announced */
#define UMBRA_ESERVICE 17           /* rank belongs to another service process of its host */
#define UMBRA_ESECRET 18            /* job secret does not match */
#define UMBRA_ECOPY 19              /* operating system refused the copy */
#define UMBRA_EALREADY 20           /* rank has already left this generation */
#define UMBRA_EPROTOCOL 21          /* peer speaks another protocol version */
#define UMBRA_EQUEUE 22             /* queue to the peer broke: retry */
#define UMBRA_EINTERRUPTED 23       /* interrupted */
#define UMBRA_EUNREACHABLE 24       /* memory needs an RDMA device that reaches its owner's */

/* Codes of this interface. */
#define UMBRA_EINVAL 100            /* an argument is null, out of range, or not UTF-8 */
#define UMBRA_ESTALE 101            /* handle names nothing any more */
#define UMBRA_EKIND 102             /* handle names an object of another kind */
#define UMBRA_ESIZE 103             /* buffer is too small: the needed length was stored */
#define UMBRA_ESTRUCT 104           /* size in front of a structure is smaller than any version of it */
#define UMBRA_ESYSTEM 105           /* the system refused: ask for the detail */
#define UMBRA_EPANIC 106            /* bug in the library */
#define UMBRA_ENOSLOT 107           /* data has no slot */
#define UMBRA_EUNUSED 108           /* data has a slot, and nobody a reference to it */
#define UMBRA_EINUSE 109            /* somebody has a reference to it, or is there */
#define UMBRA_EFILLING 110          /* slot is being filled */
#define UMBRA_ENOTFILLING 111       /* slot is not being filled (any more) */
#define UMBRA_EABANDONED 112        /* whoever filled the slot gave up */
#define UMBRA_ECONTRACT 113         /* cache of this contract has no such operation */
#define UMBRA_ETOOLARGE 114         /* group has more inputs than there are slots, or places for members */
#define UMBRA_EUSAGE 115            /* input is not in the usage map, or was named as often as that says */
#define UMBRA_ENOTREADY 116         /* nobody was told that the group is ready */
#define UMBRA_EDEADLOCK 117         /* caller tells the news that it would wait for */
#define UMBRA_EEMPTY 118            /* channel is empty */
#define UMBRA_EDESTROYED 119        /* what was named was destroyed, or its owner ended */
#define UMBRA_ENEVER 120            /* more bytes than the pool, the channel or the memory can ever have */
#define UMBRA_ENONLOCAL 121         /* what is named is of another host, and this is done there only */
#define UMBRA_EVERSION 122          /* made by another version of this library */
#define UMBRA_EBROKEN 123           /* barrier is broken until it is reset */
#define UMBRA_EDAMAGED 124          /* somebody wrote over the words of the object */
#define UMBRA_ENOKEY 125            /* no cache has this key */
#define UMBRA_EKEYTAKEN 126         /* another cache has this key, or another function this name */
#define UMBRA_ECALL 127             /* a member failed, and so did the call: the answer says who */
#define UMBRA_ENOFUNCTION 128       /* no function of this name is registered here */
#define UMBRA_ETOOLONG 129          /* more bytes, members or levels than calls may have */
#define UMBRA_EENDED 130            /* the other end of the conversation has said everything, or listens no more */
#define UMBRA_EPARTLY 131           /* a part of the message was sent; the rest goes before what is sent next */
#define UMBRA_ENOGATEWAY 132        /* no gateway is registered for the host */
#define UMBRA_ELOST 133             /* gateway of the other host not reached, or dead: nobody knows what was done */
#define UMBRA_EEXISTS 134           /* a pool of this name exists */
#define UMBRA_ENOPOOL 135           /* no pool has this name */
#define UMBRA_EBUSY 136             /* another call is changing what this one needs: retry, or reclaim if its process died */

/* ---- the library ---- */

/* The version of the library. */
int umbra_library_version(uint32_t *major, uint32_t *minor, uint32_t *patch);

/* What a code means, in one sentence: cut to capacity bytes with a final zero; its whole length goes to length unless that
 * is NULL. */
int umbra_error_text(int code, char *buffer, size_t capacity, size_t *length);

/* The whole story of the last failure in this thread, for people. */
int umbra_error_detail(char *buffer, size_t capacity, size_t *length);

/* For functions on top of these: makes this the last failure of this thread, with its story, and returns the code as a negative
 * one. -UMBRA_EINVAL: there is no such failure, or the story is NULL or no UTF-8. */
int umbra_error_put(int code, const char *detail);

/* ---- sessions: a rank's membership in a job ---- */

typedef uint64_t umbra_session;
typedef uint64_t umbra_group;
typedef uint64_t umbra_region;

struct umbra_join_options {
    size_t size;                    /* sizeof(struct umbra_join_options) */
    const char *config;             /* configuration file */
    const char *dpus;               /* the job's DPUs, separated by commas; NULL: all of the file */
    const char *secret;             /* file with the job's secret */
    const char *sockets;            /* directory of the agents' Unix sockets; NULL: TCP, and memory is exported over RDMA */
    uint32_t rank;                  /* world rank of this process */
    uint32_t world_size;
    uint32_t host;                  /* this host's place among the hosts of the file with a DPU in the job */
    uint32_t local_rank;            /* number among the ranks of this host */
    uint32_t local_size;            /* ranks on this host */
    uint32_t shadows;               /* shadow service processes of each rank; 0: 1 */
    uint64_t timeout_ms;            /* patience of every call that waits; 0: 10 000 */
    uint64_t silence_ms;            /* without a word of its service process for so long that one counts as dead; 0: the timeout */
};

/* Joins the job and its world group; returns when that is full. Memory that is exported over RDMA goes through the device that
 * UMBRA_DEVICE in the environment names, or else the configuration file, or else the first that carries data. The session is of
 * the process that joins and ends with it, also while a child that it forked off lives; what goes on in a child joins there. In
 * the child every call on the session that it inherits answers -UMBRA_ESTALE and changes nothing for the parent. */
int umbra_session_join(const struct umbra_join_options *options, umbra_session *session);
/* Leaves: revokes what is exported, leaves all groups. Releases the handle in any case. Waits while another thread is in
 * umbra_session_sleep, _progress or another call that changes the session. */
int umbra_session_leave(umbra_session session);
/* The world group, as a handle of its own. */
int umbra_session_world(umbra_session session, umbra_group *world);
/* The rank's shadow service processes, in order. */
int umbra_session_shadows(umbra_session session, uint32_t *buffer, size_t capacity, size_t *count);
/* How often the system woke this process for its links: stands still while others read its memory. */
int umbra_session_wakeups(umbra_session session, uint64_t *wakeups);
/* A rank that computes elsewhere need not call anything, but for two things: memory that is exported over RDMA is read by new
 * readers only when its owner has let them connect, and a service process that was started again knows of a rank only what
 * that tells it. umbra_session_progress does what is to be done, and returns when something has happened or the time is over: 0
 * is a look, UMBRA_FOREVER has no end. umbra_session_sleep sleeps until descriptor is readable, or something is to be done: *ended
 * is 1 if a link to a service process has ended (umbra_session_recover then), or over RDMA if a word has come
 * (umbra_session_progress then), else 0: also if a signal came, so look whether the descriptor is readable. -UMBRA_ESYSTEM: the
 * descriptor is closed. Meanwhile look-ups go on; calls that change the session wait, also umbra_session_leave, and look-ups
 * behind them: who needs one from another thread makes the descriptor readable first, or calls umbra_session_progress with a
 * short time.
 * umbra_session_recover returns when the service processes have this rank's groups and exported memory back, and the handles of
 * groups name the same groups as before; until then their look-ups may be -UMBRA_EGENERATION. -UMBRA_EPEER, -UMBRA_ETIMEOUT: one of
 * them did not come back. */
int umbra_session_progress(umbra_session session, uint64_t timeout_ms);
int umbra_session_sleep(umbra_session session, int descriptor, int *ended);
int umbra_session_recover(umbra_session session);

/* ---- groups ---- */

/* Creates a group together with its other members, in this order; returns when it is full. -UMBRA_EGENERATION: the group of this id
 * that was left has just ended; create it again. Of all threads that use a session, one at a time waits in this call or in
 * umbra_group_end: threads that make or end several groups must do it in the same order in all ranks, or they wait for each other
 * until the deadline. */
int umbra_group_create(umbra_session session, uint32_t id, const uint32_t *members, size_t count, umbra_group *group);
/* Leaves a group and releases its handle; does not wait. The world group's handle is only released. */
int umbra_group_free(umbra_group group);
/* Leaves a group, waits until it has ended for all its members, releases its handle. */
int umbra_group_end(umbra_group group);

/* ---- look-ups: no message, no lock against other look-ups; they wait for calls that change the session, and who waits to ---- */

struct umbra_endpoint {
    size_t size;                    /* sizeof(struct umbra_endpoint) */
    uint32_t world_rank;
    uint32_t service_process;       /* the first shadow service process */
    uint32_t host;
    uint32_t shadows;               /* how many shadow service processes */
};

/* The hot look-up: the process of a rank and its first shadow service process. */
int umbra_group_lookup(umbra_group group, uint32_t rank, uint32_t *world_rank, uint32_t *service_process);
/* The same for count ranks at once, all of one generation; after an error nothing in the outputs is an answer. */
int umbra_group_lookup_all(umbra_group group, const uint32_t *ranks, size_t count, uint32_t *world_ranks,
                           uint32_t *service_processes);
int umbra_group_endpoint(umbra_group group, uint32_t rank, struct umbra_endpoint *endpoint);

int umbra_group_size(umbra_group group, uint32_t *size);
int umbra_group_generation(umbra_group group, uint32_t *generation);
int umbra_group_shadow(umbra_group group, uint32_t rank, uint32_t nth, uint32_t *service_process);
int umbra_group_host_of(umbra_group group, uint32_t rank, uint32_t *host);
int umbra_group_index_on_host(umbra_group group, uint32_t rank, uint32_t *index);
/* Numbers of service processes: job-wide, and within the group. */
int umbra_group_index_of_service_process(umbra_group group, uint32_t service_process, uint32_t *nth);
int umbra_group_service_process(umbra_group group, uint32_t nth, uint32_t *service_process);
int umbra_group_index_within_service_process(umbra_group group, uint32_t nth, uint32_t rank, uint32_t *index);
/* 1 or 0. */
int umbra_group_same_host(umbra_group group, uint32_t rank, uint32_t other, uint32_t *same);
int umbra_group_same_service_process(umbra_group group, uint32_t rank, uint32_t other, uint32_t *same);

/* Lists are stored into a buffer of capacity numbers; count gets their length even if that is too small. */
int umbra_group_shadows(umbra_group group, uint32_t rank, uint32_t *buffer, size_t capacity, size_t *count);
int umbra_group_service_processes(umbra_group group, uint32_t *buffer, size_t capacity, size_t *count);
int umbra_group_hosts(umbra_group group, uint32_t *buffer, size_t capacity, size_t *count);
int umbra_group_service_processes_on(umbra_group group, uint32_t nth_host, uint32_t *buffer, size_t capacity,
                                     size_t *count);
int umbra_group_ranks_on(umbra_group group, uint32_t nth_host, uint32_t *buffer, size_t capacity, size_t *count);
int umbra_group_ranks_of(umbra_group group, uint32_t nth_service_process, uint32_t *buffer, size_t capacity,
                         size_t *count);

/* ---- regions: memory that the rank's shadow service processes may read ---- */

/* Allocates zeroed memory; it belongs to the region, and is there until that is freed or the session is left. */
int umbra_region_allocate(umbra_session session, size_t len, void **memory, umbra_region *region);
/* Exports it for reading; returns when all shadow service processes can read it. key may be NULL. A session has at most 1024 regions
 * exported at once (-UMBRA_EFULL). After an error the memory is where it was, with what is in it, and can be exported again;
 * -UMBRA_EINVAL then says that a service process which did not answer may still read it: umbra_region_revoke first. */
int umbra_region_export(umbra_region region, uint64_t *key);
/* The same for memory that does not change until it is taken back: service processes may keep copies of what they have read of it
 * for their ranks, and read it ahead. Who writes to it all the same lets others read old bytes. */
int umbra_region_export_constant(umbra_region region, uint64_t *key);
/* Copies bytes out of this process' own region, with the checks of bounds that a remote reader meets. */
int umbra_region_read(umbra_region region, uint64_t offset, void *buffer, size_t len);
/* Takes it back; when this returns no service process reads it any more. It can be exported again. */
int umbra_region_revoke(umbra_region region);
/* Revokes it if it is exported, frees its memory, releases its handle. */
int umbra_region_free(umbra_region region);

/* ---- reads of other ranks' regions: the owner need not do anything meanwhile ---- */

/* Names an exported region: plain bytes, to be sent to other ranks by any means. Every rank of the job that has them may
 * read the region until it is revoked; then they open nothing any more (-UMBRA_EREVOKED, -UMBRA_EKEY). */
struct umbra_ticket {
    unsigned char bytes[64];
};

/* The ticket of an exported region. */
int umbra_region_ticket(umbra_region region, struct umbra_ticket *ticket);
/* Whose memory a ticket names, and its length in bytes; -UMBRA_EMALFORMED if a byte of it is damaged. */
int umbra_ticket_describe(const struct umbra_ticket *ticket, uint32_t *world_rank, uint64_t *len);

/* Reads len bytes from offset within another rank's region, through this rank's service process; returns when they are
 * there, at the latest after timeout_ms of the join options. Other calls on the session wait for it. */
int umbra_session_read(umbra_session session, const struct umbra_ticket *ticket, uint64_t offset, void *buffer, size_t len);

/* Says that this rank will read len bytes from offset within another rank's region, as one read: its service process reads
 * them ahead, as far as it has room, if it was exported by umbra_region_export_constant. Does not wait; said (may be NULL) gets how many
 * of the bytes were said. */
int umbra_session_read_ahead(umbra_session session, const struct umbra_ticket *ticket, uint64_t offset, uint64_t len,
                             uint64_t *said);

/* A read that was begun. Its deadline, timeout_ms of the join options, begins when it is posted. */
typedef uint64_t umbra_read;

/* Begins to read, and returns at once. -UMBRA_EFULL: finish some reads first. */
int umbra_read_post(umbra_session session, const struct umbra_ticket *ticket, uint64_t offset, size_t len, umbra_read *read);
/* Makes progress without waiting. Stores all bytes and sets done to 1 if they are there, else sets it to 0. A read that
 * failed returns why, as often as it is asked. Nothing happens to the buffer between calls. */
int umbra_read_poll(umbra_read read, void *buffer, size_t capacity, int *done);
/* Waits for the bytes. */
int umbra_read_wait(umbra_read read, void *buffer, size_t capacity);
/* Releases the handle; gives up a read that has not ended. */
int umbra_read_free(umbra_read read);

/* ---- slot caches: which slot holds which data, for the threads of this process, of which a forked child makes its own ---- */

typedef uint64_t umbra_cache;

#define UMBRA_CACHE_STACK 0         /* content is gone with its last reference */
#define UMBRA_CACHE_REMEMBERING 1   /* and umbra_cache_remember: content stays until its slot is needed */
#define UMBRA_CACHE_FORGETFUL 2     /* and umbra_cache_forget */

#define UMBRA_POLICY_CLOCK 0        /* whose content leaves when a slot is needed */
#define UMBRA_POLICY_LRU 1
#define UMBRA_POLICY_FIFO 2
#define UMBRA_POLICY_SIEVE 3
#define UMBRA_POLICY_S3FIFO 4

struct umbra_cache_options {
    size_t size;                    /* sizeof(struct umbra_cache_options) */
    uint32_t contract;              /* UMBRA_CACHE_... */
    uint32_t policy;                /* UMBRA_POLICY_...; a stack needs none */
    uint32_t first_slot;            /* slots are numbered from here */
    uint32_t slots;
    uint64_t ids;                   /* ids of data are below this: 4 bytes for each; 0: any ids */
    uint32_t waiters;               /* threads that can wait at once; 0: 1024 */
};

int umbra_cache_create(const struct umbra_cache_options *options, umbra_cache *cache);
/* Interrupts the cache and releases its handle. */
int umbra_cache_destroy(umbra_cache cache);

/* What was found in the slot. */
#define UMBRA_FOUND_EMPTY 0         /* nothing: fill it, then umbra_cache_remember; or umbra_cache_abandon */
#define UMBRA_FOUND_ASSIGNED 1      /* another thread fills it: umbra_cache_wait_filled */
#define UMBRA_FOUND_REMEMBERED 2    /* the content */

/* Takes a reference to the slot of data. If all slots are in use, waits in line for at most timeout_ms (-UMBRA_ETIMEOUT: the
 * detail names who holds them); with 0 it does not wait (-UMBRA_EFULL). Each is followed by one umbra_cache_free. */
int umbra_cache_alloc(umbra_cache cache, uint64_t data, uint64_t timeout_ms, uint32_t *slot, uint32_t *found);
/* Waits until the slot of data is filled. -UMBRA_EABANDONED: allocate again, and fill it if it is found empty. */
int umbra_cache_wait_filled(umbra_cache cache, uint64_t data, uint64_t timeout_ms);
int umbra_cache_free(umbra_cache cache, uint64_t data);

/* A reference as a value. */
struct umbra_pin {
    uint64_t data;
    uint64_t mark;                  /* 0 once it was given back */
    uint32_t slot;
    uint32_t found;                 /* UMBRA_FOUND_... */
};

/* As umbra_cache_alloc; followed by one umbra_cache_free_pin. */
int umbra_cache_pin(umbra_cache cache, uint64_t data, uint64_t timeout_ms, struct umbra_pin *pin);
/* -UMBRA_ENOSLOT: it was given back already, or the cache was reset since. Do not copy pins, nor give them to another cache: who gives
 * a copy back gives back another reference to the same data, or gets -UMBRA_EUNUSED if there is none. */
int umbra_cache_free_pin(umbra_cache cache, struct umbra_pin *pin);

/* What the slot of data is doing. */
#define UMBRA_SLOT_NONE 0           /* the data has none */
#define UMBRA_SLOT_FILLING 1        /* references are held, the content is not there yet */
#define UMBRA_SLOT_ABANDONED 2      /* references are held, and whoever filled it gave up */
#define UMBRA_SLOT_IN_USE 3         /* references are held to content */
#define UMBRA_SLOT_IDLE 4           /* content without a reference */

int umbra_cache_state(umbra_cache cache, uint64_t data, uint32_t *state);
/* References to data. */
int umbra_cache_references(umbra_cache cache, uint64_t data, uint32_t *references);

/* What is told of each reference of a batch. */
struct umbra_cache_grant {
    uint32_t slot;
    uint32_t found;                 /* UMBRA_FOUND_... */
    uint32_t references;            /* to the data, this one included */
    uint32_t hint;                  /* where umbra_cache_free_all looks first */
};

/* Takes a reference to the slot of each of count data, in order and without waiting: who held some slots while it waits for more
 * could wait for ever. The first refusal ends the call with its code; done gets the number of references that were taken, whose
 * grants are stored, and 0 if the handle or a list is refused. They are the caller's, also after a failure. */
int umbra_cache_alloc_all(umbra_cache cache, const uint64_t *data, size_t count, struct umbra_cache_grant *grants, size_t *done);
/* Gives a reference to each of count data back, in order. grants is what was told of them, and saves a search for each that is
 * still where it was then; or NULL. Grants are only hints, also those of other data or of another cache. The first refusal ends
 * the call with its code (-UMBRA_EUNUSED and -UMBRA_ENOSLOT: freed too often); done gets the number of those given back, also
 * then. */
int umbra_cache_free_all(umbra_cache cache, const uint64_t *data, const struct umbra_cache_grant *grants, size_t count,
                         size_t *done);
/* The content is there, or will not come; says who found the slot empty. */
int umbra_cache_remember(umbra_cache cache, uint64_t data);
int umbra_cache_abandon(umbra_cache cache, uint64_t data);
/* Empties the slot of content that nobody uses; forgotten (may be NULL) gets 0 if there was none. The second one also takes
 * content in use, which leaves with its last reference. */
int umbra_cache_forget(umbra_cache cache, uint64_t data, int *forgotten);
int umbra_cache_forget_later(umbra_cache cache, uint64_t data, int *forgotten);

/* Ends every wait and makes every later call fail with -UMBRA_EINTERRUPTED, but for the following ones. */
int umbra_cache_interrupt(umbra_cache cache);
/* The slots that somebody may still be writing to. Once each is settled, the cache can be made ready again, and empty. Reset
 * only when no thread still reads, or will free, remember or abandon, what it got before: references are counted by data, so
 * a late umbra_cache_free takes somebody else's. */
int umbra_cache_outstanding(umbra_cache cache, uint32_t *buffer, size_t capacity, size_t *count);
int umbra_cache_settle(umbra_cache cache, uint32_t slot);
int umbra_cache_reset(umbra_cache cache);

struct umbra_cache_statistics {
    size_t size;                    /* sizeof(struct umbra_cache_statistics) */
    uint64_t hits;                  /* content was found */
    uint64_t joins;                 /* a slot was found that another thread fills */
    uint64_t loads;                 /* an empty slot was found */
    uint64_t evictions;             /* content left because its slot was needed */
    uint64_t forgotten;             /* content left on request, or after its last use */
    uint64_t refused;               /* no slot was found */
    uint32_t waiting;               /* calls that wait now */
};

int umbra_cache_statistics(umbra_cache cache, struct umbra_cache_statistics *statistics);

/* Several caches, each under a key: made, found and ended by any thread while others are used. */
typedef uint64_t umbra_caches;

/* A table for up to capacity caches. */
int umbra_caches_create(uint32_t capacity, umbra_caches *caches);
/* Makes a cache and puts it under a key. -UMBRA_EKEYTAKEN, or -UMBRA_EFULL if the table is: nothing was made. */
int umbra_caches_add(umbra_caches caches, uint64_t key, const struct umbra_cache_options *options, umbra_cache *cache);
/* The cache with a key; -UMBRA_ENOKEY if there is none. */
int umbra_caches_find(umbra_caches caches, uint64_t key, umbra_cache *cache);
/* Ends the cache with a key; its handle is stale then, and the key is free. -UMBRA_EINUSE: somebody holds a slot of it or waits,
 * and nothing has changed. */
int umbra_caches_end(umbra_caches caches, uint64_t key);
/* Interrupts it first. -UMBRA_EINUSE: slots may still be written to; settle each, then end it. */
int umbra_caches_interrupt_and_end(umbra_caches caches, uint64_t key);
/* Interrupts and releases all caches of the table, and the table. */
int umbra_caches_destroy(umbra_caches caches);

/* ---- slot caches that processes of a host share: which slot of memory that all of them have holds which data ---- */

typedef uint64_t umbra_shared_cache;

/* Beside a contract (with |): this process takes back what dead ones held while it waits, as umbra_shared_cache_reclaim does, and
 * without being told of their fills. It promises that a process that dies leaves nobody behind who writes into its slots: no
 * device, no remote read. */
#define UMBRA_SHARED_CACHE_RECLAIM 0x100

struct umbra_shared_cache_options {
    size_t size;                    /* sizeof(struct umbra_shared_cache_options) */
    uint32_t contract;              /* UMBRA_CACHE_..., with UMBRA_SHARED_CACHE_RECLAIM or without */
    uint32_t slots;                 /* numbered from 0 */
    uint32_t processes;             /* that can use it at once, 30 at most; 0: 8 */
    uint32_t references;            /* of each process to one slot, rounded up to 1, 3, 7, ...; 0: all, 31 for 8 processes */
};

/* Makes an empty cache and takes a place at it. A place is this process's: its threads share it, a forked child has none
 * (-UMBRA_ESTALE for all but _share and _leave) and attaches by itself. */
int umbra_shared_cache_create(const struct umbra_shared_cache_options *options, umbra_shared_cache *cache);
/* A new descriptor, closed by exec, for another process to attach by. */
int umbra_shared_cache_share(umbra_shared_cache cache, int *descriptor);
/* Takes a place at the cache behind a descriptor, which stays the caller's. -UMBRA_ECONFLICT: the cache has another contract;
 * -UMBRA_EINVAL: there is no such cache behind it, or one that another build made; -UMBRA_ESYSTEM: no memory that can be mapped,
 * or whose length could change; -UMBRA_EFULL: all places are taken. */
int umbra_shared_cache_attach(int descriptor, uint32_t contract, umbra_shared_cache *cache);
/* The same, but if all places are taken, in that of a dead process; what it held is taken back as by
 * umbra_shared_cache_reclaim, also if there is no place in the end. */
int umbra_shared_cache_attach_or_succeed(int descriptor, uint32_t contract,
                                         void (*abandoned)(void *user, uint32_t slot, uint64_t data), void *user,
                                         umbra_shared_cache *cache);
/* Releases the handle, and gives the place and all that was taken with it back: once the last call with it has ended. */
int umbra_shared_cache_leave(umbra_shared_cache cache);

/* A call with a timeout_ms is made again for so long while another process is changing what it needs, which seldom takes a
 * microsecond, but lasts if that process died: then -UMBRA_ETIMEOUT, and a umbra_shared_cache_reclaim helps, which calls of a
 * process make by themselves that joined with UMBRA_SHARED_CACHE_RECLAIM. With 0 it is made once, and -UMBRA_EBUSY says this. */

/* Takes a reference to the slot of data; found is UMBRA_FOUND_.... If all slots are in use, or others wait for one, waits in line
 * for at most timeout_ms; but never for data that is present. -UMBRA_ETIMEOUT: umbra_error_detail says who holds the slots. With 0:
 * -UMBRA_EFULL; also if this process has as many references to the data as are counted. Each is followed by one
 * umbra_shared_cache_free of this process. */
int umbra_shared_cache_alloc(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms, uint32_t *slot, uint32_t *found);
/* Waits until the slot of data is filled. -UMBRA_EABANDONED: allocate again, and fill it if it is found empty; so it is once a
 * process that died over it was reclaimed. With 0: -UMBRA_EFILLING. */
int umbra_shared_cache_wait_filled(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms);
int umbra_shared_cache_free(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms);
/* The content is there, or will not come; says who found the slot empty. What it wrote before is seen by whoever finds the
 * content. */
int umbra_shared_cache_remember(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms);
int umbra_shared_cache_abandon(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms);
/* As umbra_cache_forget and umbra_cache_forget_later. */
int umbra_shared_cache_forget(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms, int *forgotten);
int umbra_shared_cache_forget_later(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms, int *forgotten);

/* A reference that is given back without looking for its data, and whatever others are doing. */
struct umbra_shared_pin {
    uint64_t data;
    uint64_t mark;                  /* 0 once it was given back */
    uint32_t slot;
    uint32_t found;                 /* UMBRA_FOUND_... */
};

/* As umbra_shared_cache_alloc; followed by one umbra_shared_cache_free_pin. */
int umbra_shared_cache_pin(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms, struct umbra_shared_pin *pin);
/* -UMBRA_ENOSLOT: it was given back already, or this process has no such reference; -UMBRA_EBUSY: retry. Do not copy pins: who
 * gives a copy back gives back another reference of this process to the same data, if there is one. */
int umbra_shared_cache_free_pin(umbra_shared_cache cache, struct umbra_shared_pin *pin);

/* Many references at once, in the order of a list of count elements: each as the call for one does it, but what all of them need of
 * the memory is fetched together. timeout_ms is for the whole call. The first refusal ends it with its code; done gets the number
 * of elements before that, for which it was done and stays done, and 0 if the handle or a list is refused. To go on, call again
 * with the rest of the list. */

/* Takes a pin of each of count data, into pins, which has room for as many. The first done of them are the caller's, also after a
 * failure, and the others stay as they were. Others may do something between two of them, and each says what was found when it was
 * taken; of data that is in the list twice, the second may be UMBRA_FOUND_ASSIGNED by the first. Does not wait for slots, because
 * who held some while it waits for more could wait for ever: if all are in use, -UMBRA_EFULL, whatever timeout_ms is. For the same
 * reason fill or abandon all that were found UMBRA_FOUND_EMPTY before you wait for the content of others. */
int umbra_shared_cache_pin_all(umbra_shared_cache cache, const uint64_t *data, size_t count, uint64_t timeout_ms,
                               struct umbra_shared_pin *pins, size_t *done);
/* Gives count pins back, of one call or of several and in any order: the marks of the first done of them are 0 then.
 * -UMBRA_ENOSLOT and -UMBRA_EBUSY as from umbra_shared_cache_free_pin. */
int umbra_shared_cache_free_pins(umbra_shared_cache cache, struct umbra_shared_pin *pins, size_t count, size_t *done);
/* Gives a reference to each of count data back by their ids. -UMBRA_EUNUSED and -UMBRA_ENOSLOT: freed too often. */
int umbra_shared_cache_free_all(umbra_shared_cache cache, const uint64_t *data, size_t count, uint64_t timeout_ms, size_t *done);

/* What the slot of data is doing: UMBRA_SLOT_.... */
int umbra_shared_cache_state(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms, uint32_t *state);
/* References of all processes to data. */
int umbra_shared_cache_references(umbra_shared_cache cache, uint64_t data, uint64_t timeout_ms, uint32_t *references);

struct umbra_shared_cache_reclaimed {
    size_t size;                    /* sizeof(struct umbra_shared_cache_reclaimed) */
    uint64_t references;            /* that dead processes held */
    uint64_t fills;                 /* that they had begun */
    uint64_t emptied;               /* slots that nobody uses any more, and that have no content */
};

/* Takes back what dead processes hold: references, places, and fills, of which each is told to abandoned (may be NULL); the next
 * alloc of its data finds the slot empty. What a dead process had others write into a slot (a device, a remote read) must have
 * ended before. Goes on for at most timeout_ms while another process is at it, or an abandoned that calls it, which it should not
 * do. On failure what was done stays done and is in reclaimed, and another call goes on. reclaimed may be NULL. */
int umbra_shared_cache_reclaim(umbra_shared_cache cache, uint64_t timeout_ms,
                               void (*abandoned)(void *user, uint32_t slot, uint64_t data), void *user,
                               struct umbra_shared_cache_reclaimed *reclaimed);
/* Ends every wait and makes every later call of every process fail with -UMBRA_EINTERRUPTED, for good; but for _share, _attach,
 * _leave, _reclaim and _statistics. */
int umbra_shared_cache_interrupt(umbra_shared_cache cache);

struct umbra_shared_cache_statistics {
    size_t size;                    /* sizeof(struct umbra_shared_cache_statistics) */
    uint64_t loads;                 /* an empty slot was found, by any process */
    uint64_t evictions;             /* content left because its slot was needed */
    uint64_t refused;               /* no slot was found */
    uint32_t slots;
    uint32_t empty;                 /* slots without data, just then */
    uint32_t processes;             /* that have a place, dead ones included */
    uint32_t reserved;              /* 0 */
};

/* Looks at all slots. */
int umbra_shared_cache_statistics(umbra_shared_cache cache, struct umbra_shared_cache_statistics *statistics);

/* ---- memory: which bytes belong to what, for the threads of this process; nothing touches the bytes ---- */

typedef uint64_t umbra_memory;

struct umbra_memory_options {
    size_t size;                    /* sizeof(struct umbra_memory_options) */
    uint64_t capacity;              /* bytes to manage, wherever they are; at most 2^32 - 2 granules, else -UMBRA_EINVAL */
    uint64_t granule;               /* unit of offsets and lengths, a power of two; 0: 64 bytes */
    uint32_t ranges;                /* that can be in use at once */
    uint32_t waiters;               /* threads that can wait at once; 0: 1024 */
};

int umbra_memory_create(const struct umbra_memory_options *options, umbra_memory *memory);
/* Interrupts the memory and releases its handle. */
int umbra_memory_destroy(umbra_memory memory);
/* Takes a range of len bytes at a multiple of align (a power of two; 0: anywhere). Waits in line for room for at most timeout_ms
 * (-UMBRA_ETIMEOUT: the detail tells how full it is); with 0 it does not wait (-UMBRA_EFULL). -UMBRA_ENEVER: it is larger than
 * the memory. */
int umbra_memory_alloc(umbra_memory memory, uint64_t len, uint64_t align, uint64_t timeout_ms, uint64_t *offset);
/* Gives the range back that starts there; -UMBRA_EUNUSED if none does. */
int umbra_memory_free(umbra_memory memory, uint64_t offset);
/* Ends every wait and makes every later call fail with -UMBRA_EINTERRUPTED. */
int umbra_memory_interrupt(umbra_memory memory);

struct umbra_memory_figures {
    size_t size;                    /* sizeof(struct umbra_memory_figures) */
    uint64_t capacity;              /* bytes managed */
    uint64_t free;                  /* bytes free, in all ranges together */
    uint64_t largest;               /* bytes of the longest free range; what was freed lately is joined with what is free around
                                       it when somebody finds no room */
    uint32_t used_ranges;
    uint32_t free_ranges;
    uint32_t waiting;               /* calls that wait now */
};

int umbra_memory_figures(umbra_memory memory, struct umbra_memory_figures *figures);

/* Data of any length in one memory: what is found, remembered and forgotten is as in a forgetful slot cache. */
typedef uint64_t umbra_cached_memory;

struct umbra_placed {
    uint64_t data;
    uint64_t len;                   /* in bytes; the same each time */
    uint64_t offset;                /* gets its place */
    uint32_t found;                 /* gets UMBRA_FOUND_... */
};

/* ranges: data that can have a place at once. */
int umbra_cached_memory_create(const struct umbra_memory_options *options, umbra_cached_memory *memory);
int umbra_cached_memory_destroy(umbra_cached_memory memory);
/* Takes references to the places of all members, or of none: who waits in line holds nothing of its group, so groups can't block
 * each other. Waits for at most timeout_ms; with 0 it does not. Each member is followed by one umbra_cached_memory_free. */
int umbra_cached_memory_alloc(umbra_cached_memory memory, struct umbra_placed *members, size_t count, uint64_t timeout_ms);
/* Waits until the place of data is filled. -UMBRA_EABANDONED: allocate again, and fill it if it is found empty. */
int umbra_cached_memory_wait_filled(umbra_cached_memory memory, uint64_t data, uint64_t timeout_ms);
int umbra_cached_memory_free(umbra_cached_memory memory, uint64_t data);
/* The content is there, or will not come; says who found the place empty. */
int umbra_cached_memory_remember(umbra_cached_memory memory, uint64_t data);
int umbra_cached_memory_abandon(umbra_cached_memory memory, uint64_t data);
/* As for slot caches; forgotten may be NULL. */
int umbra_cached_memory_forget(umbra_cached_memory memory, uint64_t data, int *forgotten);
int umbra_cached_memory_forget_later(umbra_cached_memory memory, uint64_t data, int *forgotten);
/* Ends every wait and makes every later call fail with -UMBRA_EINTERRUPTED, for good, but for the following ones. */
int umbra_cached_memory_interrupt(umbra_cached_memory memory);

struct umbra_fill {
    uint64_t data;
    uint64_t offset;                /* of its place */
};

/* The data whose places somebody may still be writing to: who found them empty, and whatever that had write (a device, a remote read).
 * After an interrupt tell of each by _settle that nobody does any more; the bytes may be used for something else once none is left.
 * Before an interrupt, and for data that nobody fills, _settle does nothing. */
int umbra_cached_memory_outstanding(umbra_cached_memory memory, struct umbra_fill *buffer, size_t capacity, size_t *count);
int umbra_cached_memory_settle(umbra_cached_memory memory, uint64_t data);
int umbra_cached_memory_statistics(umbra_cached_memory memory, struct umbra_cache_statistics *statistics);

struct umbra_cached_memory_figures {
    size_t size;                    /* sizeof(struct umbra_cached_memory_figures) */
    uint64_t capacity;              /* bytes managed */
    uint64_t free;                  /* bytes that no data has, in all ranges together */
    uint64_t largest;               /* bytes of the longest free range */
    uint64_t in_use;                /* bytes of data with references; what is neither free nor in use may leave */
    uint64_t longest_run;           /* bytes of the longest stretch in which nothing is in use: what can be placed now; one part in
                                       32 shorter at times */
    uint32_t used_ranges;           /* data with a place */
    uint32_t free_ranges;
    uint32_t data_in_use;           /* data with references */
};

int umbra_cached_memory_figures(umbra_cached_memory memory, struct umbra_cached_memory_figures *figures);

/* ---- object pools: places in memory of the program, for the threads of this process; nothing touches the bytes ---- */

typedef uint64_t umbra_object_pool;
/* One of the owners of an object: dropped once, and stale from then on, whoever else owns the object. */
typedef uint64_t umbra_owner;

/* Names an object and keeps nothing: eight bytes of plain data, for messages and devices. Those who get it look at the bytes only;
 * back at its pool it names the object that it named, or nothing any more, also if another object lies at the place. */
struct umbra_weak {
    uint32_t index;
    uint32_t generation;
};

struct umbra_object_class {
    uint32_t bytes;                 /* of each object; umbra_object_class_for rounds so that at most a quarter is wasted */
    uint32_t count;
};

struct umbra_object_pool_options {
    size_t size;                    /* sizeof(struct umbra_object_pool_options) */
    const struct umbra_object_class *classes; /* in the order of their bytes, which grow */
    size_t class_count;
    uint32_t owners;                /* at once at most, up to UINT32_MAX - 1; 0: two for each object, and 64 */
};

/* The bytes of the class for objects of so many; -UMBRA_ENEVER above 3.5 GiB. */
int umbra_object_class_for(uint32_t bytes, uint32_t *class_bytes);

/* Memory of the program's own, of umbra_object_pool_arena bytes, is what offsets are of: on the heap, shared, or a device's. */
int umbra_object_pool_create(const struct umbra_object_pool_options *options, umbra_object_pool *pool);
int umbra_object_pool_arena(umbra_object_pool pool, uint64_t *bytes);
/* Releases the handle; -UMBRA_EINUSE: objects have owners. */
int umbra_object_pool_destroy(umbra_object_pool pool);
/* Begins anew: all objects are free, and every owner and every struct umbra_weak from before is stale. */
int umbra_object_pool_reset(umbra_object_pool pool);
/* Calls give_back for each object that is free, so that the program can return that memory to the system; bytes (may be NULL)
 * gets how many they were. This call, _reset and _destroy have the pool alone: they are -UMBRA_EBUSY while another thread is in
 * a call of it, and calls of other threads and of give_back are -UMBRA_EBUSY meanwhile. */
int umbra_object_pool_trim(umbra_object_pool pool, void (*give_back)(void *context, uint64_t offset, uint32_t length),
                           void *context, uint64_t *bytes);

struct umbra_object_pool_statistics {
    size_t size;                    /* sizeof(struct umbra_object_pool_statistics) */
    uint32_t live;                  /* objects in use */
    uint32_t free;
    uint32_t high_water;            /* objects that were in use at once at most */
    uint32_t failures;              /* nothing was handed out, or there was no place for the owner */
    uint32_t retired;               /* places of objects that were used 2^32 times, and are not used again */
    uint32_t owners;
    uint64_t bytes;                 /* of the objects in use */
};

int umbra_object_pool_statistics(umbra_object_pool pool, struct umbra_object_pool_statistics *statistics);

/* An object of at least so many bytes, with one owner. -UMBRA_EFULL: all that are large enough are in use, or there are as many
 * owners as there can be; -UMBRA_ENEVER: none is so large. */
int umbra_object_get(umbra_object_pool pool, uint32_t bytes, umbra_owner *owner);
/* Another owner of the same object: what an operation in flight holds. -UMBRA_EFULL, as for _upgrade: as many owners as can be. */
int umbra_object_share(umbra_object_pool pool, umbra_owner owner, umbra_owner *other);
/* Drops an owner; last (may be NULL) gets 1 if it was the last one, and the object is free, else 0. */
int umbra_object_drop(umbra_object_pool pool, umbra_owner owner, int *last);
/* Where the object lies; length may be NULL. */
int umbra_object_place(umbra_object_pool pool, umbra_owner owner, uint64_t *offset, uint32_t *length);
int umbra_object_weak(umbra_object_pool pool, umbra_owner owner, struct umbra_weak *weak);
/* Whether the object still has an owner, 1 or 0: a moment later it may have none. */
int umbra_object_is_valid(umbra_object_pool pool, struct umbra_weak weak, int *valid);
/* Becomes an owner of the object; -UMBRA_ESTALE if it has none any more. */
int umbra_object_upgrade(umbra_object_pool pool, struct umbra_weak weak, umbra_owner *owner);

/* ---- stencil caches: whole neighbourhoods, each input loaded once for all that wait for it ---- */

typedef uint64_t umbra_stencil;

#define UMBRA_SHAPE_BOX 0           /* all points that differ by at most the radius in each coordinate */
#define UMBRA_SHAPE_STAR 1          /* all that differ in one coordinate, by at most the radius */

/* A grid whose points are computed one after the other, each from its neighbours in the grid. Points and inputs are numbered row by
 * row, the last coordinate fastest, and so are the groups: number n is the n-th that is submitted. */
struct umbra_stencil_grid {
    size_t size;                    /* sizeof(struct umbra_stencil_grid) */
    uint32_t extents[3];            /* outermost first; a plane has an outermost extent of 1; less than 2^32 points */
    uint32_t radius;
    uint32_t shape;                 /* UMBRA_SHAPE_... */
};

/* Groups, in the order in which they will be submitted. */
struct umbra_stencil_groups {
    size_t size;                    /* sizeof(struct umbra_stencil_groups) */
    const uint64_t *inputs;         /* of all groups, one group behind the other */
    const size_t *lengths;          /* inputs of each group */
    size_t count;                   /* groups */
};

struct umbra_stencil_options {
    size_t size;                    /* sizeof(struct umbra_stencil_options) */
    uint32_t first_slot;            /* slots are numbered from here */
    uint32_t slots;
    uint64_t inputs;                /* ids of inputs are below this; with ids: how many these are */
    uint32_t counted;               /* 1: how often inputs are used is told by umbra_stencil_count; 0: nobody knows */
    uint32_t groups;                /* groups that are submitted and not freed, at most; those in line are the known future */
    uint32_t largest_group;         /* different inputs of a group, at most */
    uint32_t members;               /* inputs of a group with repetitions, at most; 0: largest_group */
    uint32_t active;                /* groups that have all their slots, at most; 0: 1 */
    uint32_t overtake;              /* groups whose inputs are all there that pass one that waits, at most; 0: none */
    uint64_t horizon;               /* how many groups ahead uses are told apart: two rows of a plane; 0: 1 */
    const uint64_t *ids;            /* any ids, each once; NULL: inputs are numbered */
    /* What is known of uses beyond the groups in line: one of these, without ids, or NULL. Inputs leave after their last use, and
     * before that the one whose next use is farthest. It is of one run; if the groups are others, that costs loads. */
    const struct umbra_stencil_grid *grid;
    const struct umbra_stencil_groups *known;
};

/* What options point to is looked at by this call only. -UMBRA_EINVAL: an id twice, two futures, or one with ids, a grid of no points
 * or of more than there are inputs; -UMBRA_EUSAGE: known groups name an input that there is not. */
int umbra_stencil_create(const struct umbra_stencil_options *options, umbra_stencil *stencil);
/* Interrupts the cache and releases its handle. */
int umbra_stencil_destroy(umbra_stencil stencil);

/* Adds the uses of a group to the usage map: an input leaves at once after its last use. If one is refused, those in front of
 * it stay counted. */
int umbra_stencil_count(umbra_stencil stencil, const uint64_t *inputs, size_t count);
/* Accepts the inputs that an output point is computed from, and returns at once; group may be NULL. -UMBRA_EFULL: retry after
 * a group was freed. Groups get their slots in the order of submission, so no order of calls can deadlock. */
int umbra_stencil_submit(umbra_stencil stencil, uint64_t point, const uint64_t *inputs, size_t count, uint64_t *group);
/* The same, and waits, first in line for its turn and then until the group has all its slots: who names one group after the
 * other is never far ahead of the loads. -UMBRA_ETIMEOUT: not within timeout_ms; -UMBRA_EFULL: too many threads wait already. With
 * these two group is stored as well: if it is not 0, the group was accepted and goes on: do not submit it again.
 * -UMBRA_EABANDONED: an input could not be loaded, and the group has ended; its uses are given back, so that it may be
 * submitted again.
 * -UMBRA_EDEADLOCK: the caller is one of the functions that umbra_stencil_deliver calls; these must not wait. */
int umbra_stencil_alloc(umbra_stencil stencil, uint64_t point, const uint64_t *inputs, size_t count, uint64_t timeout_ms,
                        uint64_t *group);
/* Waits until a group that was accepted has all its slots; -UMBRA_ESTALE if it has ended already. */
int umbra_stencil_wait_assigned(umbra_stencil stencil, uint64_t group, uint64_t timeout_ms);

#define UMBRA_MEMBER_LOAD 0         /* an input */
#define UMBRA_MEMBER_SCRATCH 1      /* a place for an output, under an id of its own among those of inputs: it is not loaded */

struct umbra_stencil_member {
    uint64_t data;
    uint32_t kind;                  /* UMBRA_MEMBER_... */
};

/* As umbra_stencil_submit and umbra_stencil_alloc, for members of all kinds. -UMBRA_EINVAL: one id is both an input and a place for an
 * output. */
int umbra_stencil_submit_members(umbra_stencil stencil, uint64_t point, const struct umbra_stencil_member *members, size_t count,
                                 uint64_t *group);
int umbra_stencil_alloc_members(umbra_stencil stencil, uint64_t point, const struct umbra_stencil_member *members, size_t count,
                                uint64_t timeout_ms, uint64_t *group);

/* What is to be done: by polling, or by functions that are called. Ask after every call that changed something. */
#define UMBRA_ACTION_NONE 0
#define UMBRA_ACTION_PREPARE 1      /* load data into slot; answer with umbra_stencil_prepared or umbra_stencil_failed */
#define UMBRA_ACTION_READY 2        /* compute point from the slots of group; answer with umbra_stencil_free_group or _hand_over */
#define UMBRA_ACTION_FAILED 3       /* point's group has ended: data could not be loaded */
#define UMBRA_ACTION_INTERRUPTED 4  /* point's group has ended: the cache was interrupted */

struct umbra_stencil_action {
    size_t size;                    /* sizeof(struct umbra_stencil_action) */
    uint32_t kind;                  /* UMBRA_ACTION_... */
    uint32_t slot;
    uint64_t point;
    uint64_t data;
    uint64_t group;
};

int umbra_stencil_poll(umbra_stencil stencil, struct umbra_stencil_action *action);
/* The slots of a ready group, in the order in which its inputs were named. */
int umbra_stencil_slots(umbra_stencil stencil, uint64_t group, uint32_t *buffer, size_t capacity, size_t *count);

/* Functions for what is to be done. They may call every function on the cache that does not wait. failed and interrupted may be NULL. */
struct umbra_stencil_calls {
    size_t size;                    /* sizeof(struct umbra_stencil_calls) */
    void *user;                     /* handed to each of them */
    void (*prepare)(void *user, uint32_t slot, uint64_t data);
    void (*ready)(void *user, uint64_t point, uint64_t group, const uint32_t *slots, size_t count);
    void (*failed)(void *user, uint64_t point, uint64_t data);
    void (*interrupted)(void *user, uint64_t point);
};

/* Calls them for all that is to be done, and for what comes up meanwhile: one after the other, never two at once. If another
 * thread is doing so, it does this one's work as well, and the call returns at once. */
int umbra_stencil_deliver(umbra_stencil stencil, const struct umbra_stencil_calls *calls);

/* Answers. */
int umbra_stencil_prepared(umbra_stencil stencil, uint64_t data);
int umbra_stencil_failed(umbra_stencil stencil, uint64_t data);
int umbra_stencil_free_group(umbra_stencil stencil, uint64_t group);
/* Instead of umbra_stencil_free_group: stores the slots of a ready group, in the order in which its members were named, and ends it.
 * Its slots stay until each of its members was given back by umbra_stencil_free: one that was named twice, twice. -UMBRA_ESIZE, or
 * -UMBRA_EFULL (too many references to one of them): it is still the caller's. -UMBRA_ENOTREADY; -UMBRA_ESTALE. */
int umbra_stencil_hand_over(umbra_stencil stencil, uint64_t group, uint32_t *slots, size_t capacity, size_t *count);
/* Gives a reference back that was handed over, in any order and from any thread. -UMBRA_ENOTREADY: groups hold the data, but it was
 * not handed over; -UMBRA_EUNUSED and -UMBRA_ENOSLOT: freed too often. */
int umbra_stencil_free(umbra_stencil stencil, uint64_t data);

struct umbra_stencil_uses {
    uint64_t data;
    uint32_t uses;
};

/* Inputs of which more uses were counted than groups have named, with the rest: they keep slots that nobody needs. After the last
 * group it tells what was counted too much; looks at all inputs; also after an interrupt. */
int umbra_stencil_unclaimed(umbra_stencil stencil, struct umbra_stencil_uses *buffer, size_t capacity, size_t *count);

/* As for slot caches; each group that nobody was told the end of is told of the interrupt: poll or deliver until there is
 * nothing more before the reset, which drops what was not told. The reset gives back the uses of each group that was not
 * freed, so that it may be submitted again; also those of a group that is ready. */
int umbra_stencil_interrupt(umbra_stencil stencil);
int umbra_stencil_outstanding(umbra_stencil stencil, uint32_t *buffer, size_t capacity, size_t *count);
int umbra_stencil_settle(umbra_stencil stencil, uint32_t slot);
int umbra_stencil_reset(umbra_stencil stencil);
int umbra_stencil_statistics(umbra_stencil stencil, struct umbra_cache_statistics *statistics);

/* ---- gateways: what other hosts have ---- */

typedef uint64_t umbra_gateways;    /* the gateways of other hosts that this process knows */
typedef uint64_t umbra_gateway;     /* one that it is, for others */

/* What a reference of another host names is attached by umbra_*_attach_anywhere, through the gateway of that host, and used by
 * the calls for what is at hand, with their codes, deadlines and order; each is carried out there, by the gateway. Further codes:
 * -UMBRA_ELOST: the gateway died, was not reached in time, or said nothing until two seconds after the deadline; the next call
 * makes a new line to it, or to the one that is registered then. -UMBRA_ETIMEOUT: also if 16 calls wait with the same handle.
 * -UMBRA_ENEVER: also for more than the 65,472 bytes that a gateway carries in a message. -UMBRA_ENONLOCAL: what is done there
 * only, such as destroying it. A call with a timeout of 0 has its answer within two seconds. The wait mode is of no account:
 * gateways wait asleep. */
struct umbra_gateways_options {
    size_t size;                    /* sizeof(struct umbra_gateways_options) */
    const char *secret;             /* file with the job's secret; gateways and those who use them have the same */
    uint32_t masquerading;          /* not 0: what is of this host is reached through a gateway as well: for tests */
    uint32_t reserved;
};

int umbra_gateways_create(const struct umbra_gateways_options *options, umbra_gateways *gateways);
/* Where the gateway of a host listens: "ADDRESS:PORT", or the path of a Unix socket, with a slash in it. -UMBRA_EINVAL: one is
 * registered already. */
int umbra_gateways_register(umbra_gateways gateways, uint64_t host, const char *address);
/* What was attached goes on. -UMBRA_ENOGATEWAY: none is registered. */
int umbra_gateways_unregister(umbra_gateways gateways, uint64_t host);
/* What was attached goes on, too. */
int umbra_gateways_release(umbra_gateways gateways);
/* The number of this boot of this host, and that of the host of what a reference names. */
int umbra_host_id(uint64_t *host);
int umbra_reference_host(const void *reference, size_t length, uint64_t *host);
/* Serves what this user has on this host to all who hold the secret, in threads of this process, as umbra-agent --channels does.
 * The address is as above. With port 0 in it the system chooses one; port says which, and may be NULL. A socket that a gateway which
 * was killed has left at the path is taken over; it is removed when the gateway ends. While this call looks, it holds a lock on the
 * file .NAME.umbra-lock beside the path's NAME, which it then removes. -UMBRA_EINUSE: somebody serves there, or is about to. */
int umbra_gateway_start(const char *secret, const char *address, uint32_t *port, umbra_gateway *gateway);
/* How many lines it serves at the moment: 256 at most. */
int umbra_gateway_lines(umbra_gateway gateway, size_t *lines);
/* Ends it, and what others do through it; in a child that was forked off, it only releases the handle. */
int umbra_gateway_end(umbra_gateway gateway);

/* ---- pools: memory that processes of a host share ---- */

typedef uint64_t umbra_pool;
typedef uint64_t umbra_allocation;  /* in its pool; the same number in all processes, and never used again */

/* As timeout_ms: without end. With 0 a call does not wait, and its failure says how things are. */
#define UMBRA_FOREVER UINT64_MAX

#define UMBRA_MEMORY_SHARED 0       /* with a name: files in /dev/shm */
#define UMBRA_MEMORY_FOLDER 1       /* files in a folder; with a name */
#define UMBRA_MEMORY_HUGE_PAGES 2   /* pages of 2 MiB; without a name */
#define UMBRA_MEMORY_PRIVATE 3      /* for this process alone; without a name */
#define UMBRA_LIFETIME_CREATOR 0    /* a pool with a name ends with the handle that made it */
#define UMBRA_LIFETIME_LAST_USER 1  /* with the last process that uses it */

struct umbra_pool_options {
    size_t size;                    /* sizeof(struct umbra_pool_options) */
    uint64_t bytes;                 /* 0: 64 MiB */
    uint64_t granule;               /* the size of each block is a multiple of it; 0: 32 */
    uint64_t uid;                   /* a number that its users know it by; but for 0, one pool of a process has it at a time */
    uint32_t blocks;                /* most allocations at a time; 0: as many as a share of the bytes can tell of */
    uint32_t members;               /* threads that use it at the same time, in all processes; 0: 64 */
    uint32_t memory;                /* UMBRA_MEMORY_... */
    uint32_t lifetime;              /* UMBRA_LIFETIME_... */
    const char *folder;             /* for UMBRA_MEMORY_FOLDER; may be relative to the working directory of this call */
};

struct umbra_pool_statistics {
    size_t size;                    /* sizeof(struct umbra_pool_statistics) */
    uint64_t bytes;
    uint64_t free_bytes;
    uint64_t asked_bytes;           /* by those who have the allocations */
    uint64_t longest_free_bytes;
    uint64_t allocations;
};

/* A number for a pool or a channel that nobody else has drawn: it is random. What a process made with a number has it until it is
 * destroyed or released by the handle that made it. */
int umbra_uid_draw(uint64_t *uid);

/* Makes a pool; name has 1 to 29 bytes without a slash, or is NULL. What dead processes left beside it is removed first.
 * -UMBRA_EEXISTS: there is one of this name. */
int umbra_pool_create(const char *name, const struct umbra_pool_options *options, umbra_pool *pool);
/* A process may attach a pool, and a channel, as often as it likes: all its handles but the one that made it are one user, until
 * the last is released. At a channel a user takes one place; at a pool one for each of its threads that allocate at the same time,
 * up to 8, beside those of the handle that made it. If something that it allocated is still there when the last handle is released,
 * the places that own it are kept, and the next handle of the process takes them over. -UMBRA_ENOPOOL: there is none of this name. */
int umbra_pool_attach(const char *name, umbra_pool *pool);
/* Some hundred bytes by which any process of this user on this host attaches; 512 are always enough. Those of a pool without a
 * name are good as long as this process lives and has the pool. */
int umbra_pool_reference(umbra_pool pool, void *buffer, size_t capacity, size_t *length);
/* A number that was drawn when the pool was made: no other pool has it, and every process finds the same. */
int umbra_pool_instance(umbra_pool pool, uint64_t *instance);
/* By a reference to the pool, or to an allocation of it. Bytes that are cut or changed are -UMBRA_EINVAL. */
int umbra_pool_attach_reference(const void *reference, size_t length, umbra_pool *pool);
/* The same, but all who attach the pool so have one handle: it is released when it was detached as often. */
int umbra_pool_attach_shared(const void *reference, size_t length, umbra_pool *pool);
/* The same, also for a pool of another host: see gateways. Its memory is nowhere in this process: addresses are NULL, and bytes
 * are copied by umbra_allocation_read and _write. What is allocated through the handle is freed when that is released, the
 * gateway or this process dies, unless it was left to the pool. Offered are statistics, alloc, and all calls for allocations but
 * umbra_allocation_reference. */
int umbra_pool_attach_anywhere(const void *reference, size_t length, umbra_gateways gateways, uint64_t timeout_ms,
                               umbra_pool *pool);
/* Releases the handle, if it is not shared or this is the last of those who share it. */
int umbra_pool_detach(umbra_pool pool);
/* Ends the pool for all: whoever waits, and whoever comes, gets -UMBRA_EDESTROYED. */
int umbra_pool_destroy(umbra_pool pool);
int umbra_pool_statistics(umbra_pool pool, struct umbra_pool_statistics *statistics);
/* The allocations of a kind, or with UINT32_MAX all, and the kind of each unless kinds is NULL; each was there at some instant
 * while it was looked for. Both buffers have room for capacity numbers. */
int umbra_pool_list(umbra_pool pool, uint32_t kind, umbra_allocation *buffer, uint32_t *kinds, size_t capacity, size_t *count);
/* Ends what dead processes were doing; their allocations stay, but for destroyed channels that nobody has any more. */
int umbra_pool_reclaim(umbra_pool pool);
/* Frees what a dead process with this pid had allocated, and says how much; channels stay, and are this process's from then on.
 * -UMBRA_EINUSE: it lives. */
int umbra_pool_free_allocations_of(umbra_pool pool, uint32_t pid, size_t *freed);
/* Removes the pools in /dev/shm that nobody needs any more. */
int umbra_pool_clean(size_t *removed);

/* Allocates length bytes for kind, a number below 2^24 - 1 of the caller's; others are -UMBRA_EINVAL. -UMBRA_EFULL or
 * -UMBRA_ETIMEOUT: not now; -UMBRA_ENEVER: the pool has no such block. */
int umbra_pool_alloc(umbra_pool pool, uint64_t length, uint32_t kind, uint64_t timeout_ms, umbra_allocation *allocation,
                     void **address);
/* Frees an allocation, whoever made it; the second time is -UMBRA_ESTALE, and a channel's memory is -UMBRA_EINVAL. */
int umbra_allocation_free(umbra_pool pool, umbra_allocation allocation);
/* Where it is in this process, and how long. */
int umbra_allocation_look(umbra_pool pool, umbra_allocation allocation, void **address, uint64_t *length);
/* Copies length bytes out of it, or into it; -UMBRA_EBOUNDS: they are not inside. Others may change them meanwhile. On another host
 * this goes by pieces: after -UMBRA_ETIMEOUT some of them are copied. With a timeout of 0 each piece is one try. */
int umbra_allocation_read(umbra_pool pool, umbra_allocation allocation, uint64_t offset, void *buffer, size_t length,
                          uint64_t timeout_ms);
int umbra_allocation_write(umbra_pool pool, umbra_allocation allocation, uint64_t offset, const void *from, size_t length,
                           uint64_t timeout_ms);
/* Leaves it to its pool when the handle goes. Of a pool at hand all are; of another host's, those that it was called for, by the
 * handle that they were allocated with: else -UMBRA_ESTALE. */
int umbra_allocation_leave(umbra_pool pool, umbra_allocation allocation);
int umbra_allocation_reference(umbra_pool pool, umbra_allocation allocation, void *buffer, size_t capacity, size_t *length);
/* The allocation of this pool that a reference names; of another host's pool, the whole of it. */
int umbra_allocation_find(umbra_pool pool, const void *reference, size_t reference_length, umbra_allocation *allocation,
                          void **address, uint64_t *length);
/* A part of an allocation: length bytes from offset on; -UMBRA_EBOUNDS: they are not inside. Another host's is -UMBRA_ENONLOCAL.
 * By this reference, find gives the part. */
int umbra_allocation_part_reference(umbra_pool pool, umbra_allocation allocation, uint64_t offset, uint64_t length, void *buffer,
                                    size_t capacity, size_t *needed);
/* 64 bits of the BLAKE3 digest of the bytes: the same in every process and every version. */
int umbra_allocation_hash(umbra_pool pool, umbra_allocation allocation, uint64_t offset, uint64_t length, uint64_t *hash);
/* Whether length bytes of two allocations are the same, 1 or 0; they may be of two pools. */
int umbra_allocation_equal(umbra_pool pool, umbra_allocation allocation, uint64_t offset, umbra_pool other_pool,
                           umbra_allocation other, uint64_t other_offset, uint64_t length, int *is_equal);
/* A new allocation with these bytes, of the same kind, in this pool or another one; it fails as umbra_pool_alloc does. */
int umbra_allocation_copy(umbra_pool pool, umbra_allocation allocation, uint64_t offset, uint64_t length, umbra_pool to_pool,
                          uint64_t timeout_ms, umbra_allocation *copy, void **address);

/* ---- channels: bounded queues of messages between processes of a host ----
 * A child that was forked off may use its parent's of this host, by the same handles: it takes a place of its own. */

typedef uint64_t umbra_channel;

#define UMBRA_WAIT_ADAPTIVE 0       /* look for some microseconds, then sleep */
#define UMBRA_WAIT_IDLE 1           /* sleep at once */
#define UMBRA_WAIT_SPIN 2           /* never sleep, as long as at most 32 spin */
#define UMBRA_CHANNEL_MESSAGES 0
#define UMBRA_CHANNEL_SEMAPHORE 1   /* a count */

struct umbra_channel_options {
    size_t size;                    /* sizeof(struct umbra_channel_options) */
    uint64_t uid;                   /* as for pools */
    uint32_t capacity;              /* messages that wait at once; 0: 100 */
    uint32_t block;                 /* bytes of a message, at least 256; 0: 1024 */
    uint32_t members;               /* processes that use it at once; 0: 32 */
    uint32_t max_spinners;          /* waits that spin at once; 0: 32 */
    uint32_t kind;                  /* UMBRA_CHANNEL_... */
    uint32_t bounded;               /* a semaphore that can never be larger than at first */
    uint64_t initial;               /* what the semaphore is at first */
};

/* Events to poll for. */
#define UMBRA_POLL_IN 1             /* a message waits */
#define UMBRA_POLL_OUT 2            /* there is room */
#define UMBRA_POLL_IN_OUT 3
#define UMBRA_POLL_EMPTY 4
#define UMBRA_POLL_FULL 5
#define UMBRA_POLL_SIZE 6           /* result: messages that wait */
#define UMBRA_POLL_RESET 7          /* removes all messages, and makes the barrier whole */
#define UMBRA_POLL_CAPACITY 8       /* result */
#define UMBRA_POLL_BARRIER_WAIT 9   /* the first of two steps; result: 1 for the last party, which must release the others */
#define UMBRA_POLL_BARRIER_ABORT 10
#define UMBRA_POLL_BARRIER_RELEASE 11
#define UMBRA_POLL_BARRIER_IS_BROKEN 12
#define UMBRA_POLL_BARRIER_WAITERS 13
#define UMBRA_POLL_BLOCKED_RECEIVERS 14
#define UMBRA_POLL_SEMAPHORE_P 15   /* result: the value before */
#define UMBRA_POLL_SEMAPHORE_V 16
#define UMBRA_POLL_SEMAPHORE_Z 17   /* waits for zero */
#define UMBRA_POLL_SEMAPHORE_PEEK 18

/* A channel lives as long as somebody has it. */
int umbra_channel_create(const struct umbra_channel_options *options, umbra_channel *channel);
/* As for pools; good as long as this process lives and has the channel. */
int umbra_channel_reference(umbra_channel channel, void *buffer, size_t capacity, size_t *length);
int umbra_channel_attach_reference(const void *reference, size_t length, umbra_channel *channel);
/* The same, also for a channel of another host: see gateways. Offered for it are send, receive, peek, poll, barrier, reference and
 * detach. -UMBRA_ENOGATEWAY: none is registered for that host. */
int umbra_channel_attach_anywhere(const void *reference, size_t length, umbra_gateways gateways, uint64_t timeout_ms,
                                  umbra_channel *channel);
int umbra_channel_detach(umbra_channel channel);
int umbra_channel_destroy(umbra_channel channel);
/* Takes back what dead processes held; whoever waits does so by himself. */
int umbra_channel_reclaim(umbra_channel channel);
/* Sends a copy, and 64 bits beside it. -UMBRA_EFULL or -UMBRA_ETIMEOUT: nothing was sent. */
int umbra_channel_send(umbra_channel channel, const void *message, size_t length, uint64_t hints, uint32_t wait_mode,
                       uint64_t timeout_ms);
/* Receives the first message; hints may be NULL. -UMBRA_EEMPTY or -UMBRA_ETIMEOUT: there is none. -UMBRA_ESIZE: it does not fit
 * and stays the first; length says what it needs. */
int umbra_channel_receive(umbra_channel channel, void *buffer, size_t capacity, uint32_t wait_mode, uint64_t timeout_ms,
                          size_t *length, uint64_t *hints);
/* Looks at the first message, which stays: as much of it as fits, and how long it is; else as for receive. */
int umbra_channel_peek(umbra_channel channel, void *buffer, size_t capacity, uint32_t wait_mode, uint64_t timeout_ms,
                       size_t *length, uint64_t *hints);
/* Waits for an event, asks for a number, or does what the event says; result may be NULL.
 * A barrier in two steps: each party polls for BARRIER_WAIT, which counts it in and returns, the last one then for
 * BARRIER_RELEASE, and each receives a message of eight bytes, its number in little-endian order, or all ones if the barrier was
 * broken. -UMBRA_EBROKEN until a reset; -UMBRA_ENOTREADY: the round before is not over, or somebody releases it;
 * -UMBRA_EINUSE: others wait by umbra_channel_barrier in this round. Other messages have no place in such a channel. */
int umbra_channel_poll(umbra_channel channel, int event, uint32_t wait_mode, uint64_t timeout_ms, uint64_t *result);
/* Waits until as many parties came as the channel has capacity; came: how many came before this one. One wait a process at a
 * time: all its handles but the one that made the channel are one party. */
int umbra_channel_barrier(umbra_channel channel, uint32_t wait_mode, uint64_t timeout_ms, uint32_t *came);

/* What was received as memory of a pool; freeing it is the caller's, unless it was only lent. */
struct umbra_received {
    umbra_pool pool;                /* the handle that was given, with the call or for the adapter */
    umbra_allocation allocation;
    void *address;
    uint64_t length;
    uint64_t arg;                   /* the 64 bits beside it */
    uint32_t lent;
};

/* Makes a channel in a pool, of which its messages may be about memory; it stays until it is destroyed. Its messages may be longer
 * than a block: what is longer goes through the pool. Who attaches it attaches the pool as well. */
int umbra_channel_create_in(umbra_pool pool, const struct umbra_channel_options *options, umbra_channel *channel);
/* Hands memory over without a copy, or, with is_lent 1, lets the receiver read it: length bytes of an allocation of the pool that
 * the channel lies in, from offset on. What is handed over is all of the allocation, whose number is stale then; what nobody
 * receives is freed with the channel. What is lent stays the sender's, who neither frees nor changes it before it was read. If
 * it fails, all is as before. -UMBRA_EINVAL: it is memory of another pool. */
int umbra_channel_send_memory(umbra_channel channel, umbra_pool pool, umbra_allocation allocation, uint64_t offset,
                              uint64_t length, uint32_t is_lent, uint64_t hints, uint32_t wait_mode, uint64_t timeout_ms);
/* Receives the first message as memory of a pool: where it lies, if memory of that pool was sent, else in a new allocation there.
 * It fails as umbra_channel_receive and umbra_pool_alloc do, and the message stays the first one then. */
int umbra_channel_receive_memory(umbra_channel channel, umbra_pool pool, uint32_t wait_mode, uint64_t timeout_ms,
                                 struct umbra_received *received);

/* ---- sets of channels: waiting for several at once ---- */

typedef uint64_t umbra_channel_set;

/* A set of channels of this process, of which event is waited for: UMBRA_POLL_IN, OUT, IN_OUT, EMPTY or FULL. Its channels stay in
 * use as long as it does, also if their handles are released. In a child that was forked off, a set and a bell of its parent are
 * -UMBRA_ESTALE, and only their handles are released: it makes its own. */
int umbra_channel_set_create(const umbra_channel *channels, size_t count, int event, umbra_channel_set *set);
/* Waits until a channel is ready: its place in the list, and the event, or 0 if it was destroyed. A channel is named again and
 * again, in turn with the others, as long as it is ready. Many threads may wait. */
int umbra_channel_set_poll(umbra_channel_set set, uint32_t wait_mode, uint64_t timeout_ms, size_t *index, int *event);
int umbra_channel_set_release(umbra_channel_set set);

/* A bell: a descriptor for epoll(7), poll(2) and the like, which is readable when a channel of a set is ready. It stays readable
 * until the ring is taken back, and is so again at once if a channel is ready still: poll the set without waiting until it has
 * nothing more, and only then take the ring back; so nothing is missed. The descriptor is the bell's: neither read nor close it. */
typedef uint64_t umbra_bell;

int umbra_bell_create(umbra_bell *bell, int *descriptor);
/* Rings it whenever a channel of the set is ready. Returns when the bell has ended: the caller has a thread for it, which sleeps
 * meanwhile. -UMBRA_EINVAL: a set that is rung has at most 127 channels. */
int umbra_channel_set_ring(umbra_channel_set set, umbra_bell bell);
int umbra_bell_rearm(umbra_bell bell);
/* Ends whoever rings it, and releases the handle; the descriptor is closed when they have returned. */
int umbra_bell_end(umbra_bell bell);

/* ---- streams: conversations between one sender and one receiver, between processes of a host ----
 * In a child that was forked off, what its parent attached, kept and began is -UMBRA_ESTALE, and goes on for the parent. There
 * umbra_stream_reference, by whose bytes the child attaches, is as ever, and _detach, _release and _close release the handles. */

typedef uint64_t umbra_stream;      /* an adapter: what conversations begin at */
typedef uint64_t umbra_supplied;    /* a stream that a process keeps for its conversations */
typedef uint64_t umbra_sender;      /* the ends of a conversation; one call at a time uses one, a second one gets -UMBRA_EINUSE */
typedef uint64_t umbra_receiver;

#define UMBRA_STREAM_NOMINAL 0      /* a sender takes an idle stream, a receiver meets the oldest sender who waits */
#define UMBRA_STREAM_BUFFERED 1     /* each conversation is one message */
#define UMBRA_STREAM_SENDER_SUPPLIED 2   /* a sender brings a stream */
#define UMBRA_STREAM_RECEIVER_SUPPLIED 3 /* a receiver brings one */
#define UMBRA_STREAM_SINGLE 4       /* one stream, one sender and one receiver at a time */

/* From here on the 64 bits beside a message are not the user's. */
#define UMBRA_ARG_RESERVED (UINT64_MAX - 255)

struct umbra_stream_options {
    size_t size;                    /* sizeof(struct umbra_stream_options) */
    uint64_t uid;                   /* a number that its users know it by */
    uint32_t mode;                  /* UMBRA_STREAM_... */
    uint32_t streams;               /* conversations of any length at once; 0: what is usual in the mode, so for all numbers */
    uint32_t ring;                  /* bytes of such a one that are under way at once */
    uint32_t messages;              /* conversations at once that are one message */
    uint32_t block;                 /* bytes of such a one */
    uint32_t members;               /* processes that use it at once */
    uint32_t tasks;                 /* not 0: it counts tasks */
};

struct umbra_stream_statistics {
    size_t size;                    /* sizeof(struct umbra_stream_statistics) */
    uint64_t idle;                  /* streams that anybody may take */
    uint64_t waiting;               /* conversations that wait for a receiver */
    uint64_t offered;               /* streams whose receivers wait for a sender */
    uint64_t kept;                  /* streams that somebody keeps */
    uint64_t room;                  /* conversations of one message that there is room for */
};

/* Memory of these pools can be sent through it by this process, and received; they are told apart by their uid, and what is to be
 * received as memory lands in the first. The pools stay in use as long as the adapter does. */
int umbra_stream_create(const struct umbra_stream_options *options, const umbra_pool *pools, size_t count,
                        umbra_stream *stream);
/* As for channels: good as long as this process lives and has the adapter. */
int umbra_stream_reference(umbra_stream stream, void *buffer, size_t capacity, size_t *length);
int umbra_stream_attach_reference(const void *reference, size_t length, const umbra_pool *pools, size_t count,
                                  umbra_stream *stream);
/* The same, also for an adapter of another host: see gateways. Memory does not travel: -UMBRA_ENONLOCAL is what its conversations
 * say to memory, files and take_kept, -UMBRA_EINVAL to a stream or pool that is brought along: the gateway brings a stream where
 * one has to be. It keeps at most 16 MiB; then keep is -UMBRA_EFULL, or in a conversation of one message -UMBRA_ENEVER. Whether a
 * conversation has ended is known when a receive has said so. A gateway that dies ends them with -UMBRA_ELOST. */
int umbra_stream_attach_anywhere(const void *reference, size_t length, const umbra_pool *pools, size_t count,
                                 umbra_gateways gateways, uint64_t timeout_ms, umbra_stream *stream);
/* Releases the handle; conversations that this process has begun go on. */
int umbra_stream_detach(umbra_stream stream);
/* Ends it for all: whoever waits, and whoever comes, gets -UMBRA_EDESTROYED. */
int umbra_stream_destroy(umbra_stream stream);
int umbra_stream_statistics(umbra_stream stream, struct umbra_stream_statistics *statistics);
/* Takes back what dead processes held; whoever waits does so by himself. */
int umbra_stream_reclaim(umbra_stream stream);
/* Takes a stream to keep. -UMBRA_EEMPTY: all are in use. -UMBRA_EINVAL: nobody brings one in this mode. */
int umbra_stream_supply(umbra_stream stream, umbra_supplied *supplied);
int umbra_supplied_release(umbra_supplied supplied);
/* Tasks: counted, done, waited for until there are none. -UMBRA_EKIND: the adapter was made without. */
int umbra_stream_new_task(umbra_stream stream);
int umbra_stream_task_done(umbra_stream stream);
int umbra_stream_join_tasks(umbra_stream stream, uint32_t wait_mode, uint64_t timeout_ms);

struct umbra_sender_options {
    size_t size;                    /* sizeof(struct umbra_sender_options) */
    umbra_supplied supplied;        /* the stream to use, in the mode SENDER_SUPPLIED; 0: none */
    umbra_pool pool;                /* what is sent is placed there, instead of being copied through the stream; 0: nowhere */
    uint64_t arg;                   /* the 64 bits beside what is written to a file */
    uint32_t buffered;              /* not 0: as one message, which is sent at the close */
    uint32_t may_be_cut;            /* not 0: the receiver may close before the end; else his close waits for it */
    uint32_t deposit_after;         /* after how many messages receivers hear of it, or as soon as there is no room for so many;
                                     * 0: at once */
    uint32_t wait_mode;             /* UMBRA_WAIT_... */
};

/* Begins a conversation, waiting for an idle stream, or for a receiver who brought one. */
int umbra_sender_open(umbra_stream stream, const struct umbra_sender_options *options, uint64_t timeout_ms,
                      umbra_sender *sender);
/* Sends bytes, and 64 bits beside them, after what was kept; for no bytes, only that. -UMBRA_EFULL, -UMBRA_ETIMEOUT: nothing was
 * sent. -UMBRA_EPARTLY: see there; -UMBRA_ESYSTEM, also from what comes next and the close, if there was no memory to keep the
 * rest: then it will not come. -UMBRA_EENDED: the receiver closed: close too. -UMBRA_EPEER: he died. */
int umbra_sender_send(umbra_sender sender, const void *message, size_t length, uint64_t arg, uint64_t timeout_ms);
/* Keeps bytes, to be sent with what comes next as one message, with the 64 bits of the first. */
int umbra_sender_keep(umbra_sender sender, const void *message, size_t length, uint64_t arg);
/* Takes back what was kept; arg may be NULL. */
int umbra_sender_take_kept(umbra_sender sender, void *buffer, size_t capacity, size_t *length, uint64_t *arg);
int umbra_sender_flush(umbra_sender sender, uint64_t timeout_ms);
/* Hands an allocation of one of the adapter's pools over, which is the receiver's to free then; or with lent 1 lets him read it,
 * and it stays the caller's, who must not free or change it before it was read. */
int umbra_sender_send_memory(umbra_sender sender, umbra_pool pool, umbra_allocation allocation, uint32_t lent, uint64_t arg,
                             uint64_t timeout_ms);
/* A descriptor, which the caller closes: what is written to it is sent, in messages of up to chunk bytes; 0: 1024, at most 64 MiB.
 * The conversation goes on when finish has waited until it and its copies are closed; what made the copying stop before is what
 * finish returns. -UMBRA_ETIMEOUT: call it again. Meanwhile other calls get -UMBRA_EINUSE. If open fails the conversation goes on;
 * one whose finish can't give the end back is over: other calls get -UMBRA_ESTALE, the close too, which releases the handle. */
int umbra_sender_open_file(umbra_sender sender, size_t chunk, int *descriptor);
int umbra_sender_finish_file(umbra_sender sender, uint64_t timeout_ms);
/* Sends what was kept, says that it was all, and releases the handle, also if that failed. */
int umbra_sender_close(umbra_sender sender, uint64_t timeout_ms);

struct umbra_receiver_options {
    size_t size;                    /* sizeof(struct umbra_receiver_options) */
    umbra_supplied supplied;        /* the stream to use, in the mode RECEIVER_SUPPLIED; 0: none */
    umbra_pool pool;                /* where bytes land that are received as memory; 0: the adapter's first */
    uint32_t wait_mode;             /* UMBRA_WAIT_... */
    uint32_t keep_memory;           /* not 0: memory that was read as bytes is not freed */
};

/* Meets the sender of the oldest conversation that waits, or waits in a stream that was brought along. */
int umbra_receiver_open(umbra_stream stream, const struct umbra_receiver_options *options, uint64_t timeout_ms,
                        umbra_receiver *receiver);
/* Receives bytes, never more than capacity; arg may be NULL, and is that of the last message touched. With exactly 0 what there
 * is of the next message, at most 64 KiB at once; else capacity bytes, of as many messages as it takes, and fewer only at the end,
 * or if there is no memory to keep what had come at the deadline: else what had come when it fails may be in the buffer, and comes
 * again, as the messages that it was.
 * The end comes alone, after the data, again and again: -UMBRA_EENDED. -UMBRA_EPEER: the sender died. */
int umbra_receiver_receive(umbra_receiver receiver, void *buffer, size_t capacity, uint32_t exactly, uint64_t timeout_ms,
                           size_t *length, uint64_t *arg);
/* Receives the next message whole, or what is left of it; the bytes stay where they are until the next call of this function with
 * this receiver, or its close. arg may be NULL. -UMBRA_ESYSTEM: there is no memory for it; it comes again. */
int umbra_receiver_receive_message(umbra_receiver receiver, uint64_t timeout_ms, const void **bytes, size_t *length,
                                   uint64_t *arg);
/* Receives the next message whole, or what is left of it, into the caller's memory; arg may be NULL. -UMBRA_ESIZE: it has more
 * than capacity bytes, and is received again by what comes next, in whatever way that receives. */
int umbra_receiver_receive_whole(umbra_receiver receiver, void *buffer, size_t capacity, uint64_t timeout_ms, size_t *length,
                                 uint64_t *arg);
/* Receives the next message as memory: where it lies, if memory was sent; else in a pool of the adapter. One for which a pool has no
 * room comes again. -UMBRA_EINVAL: it is memory of a pool that the adapter was not told of, also where it is received as bytes; it
 * stays its sender's, and what comes next is the next message. */
int umbra_receiver_receive_memory(umbra_receiver receiver, uint64_t timeout_ms, struct umbra_received *received);
/* Whether the sender has said everything, and it was received. */
int umbra_receiver_has_ended(umbra_receiver receiver, int *ended);
/* A descriptor, which the caller closes: what is received can be read from it; it ends with the stream. As for senders. */
int umbra_receiver_open_file(umbra_receiver receiver, size_t chunk, int *descriptor);
int umbra_receiver_finish_file(umbra_receiver receiver, uint64_t timeout_ms);
/* Reads what is still to come, unless the sender let it be cut short, and releases the handle, also if that failed. */
int umbra_receiver_close(umbra_receiver receiver, uint64_t timeout_ms);

/* ---- boundary exchange: ghost cells of fields on the blocks of a mesh, between processes of a host; umbra_mpi.h makes fabrics of
 * the processes of a communicator of MPI, which all of umbra_boundary_* takes ---- */

typedef uint64_t umbra_fabric;
typedef uint64_t umbra_boundary;

#define UMBRA_NO_BLOCK UINT32_MAX   /* there is no neighbour */
#define UMBRA_FIELD_VECTOR 1        /* its components are those of a vector */
#define UMBRA_FIELD_SPARSE 2        /* it may be absent from blocks */
#define UMBRA_SCOPE_ANY 0           /* all channels */
#define UMBRA_SCOPE_LOCAL 1         /* those whose two blocks are on this rank */
#define UMBRA_SCOPE_NONLOCAL 2      /* the others */
#define UMBRA_EDGE_OUTFLOW 0        /* the last cell, continued */
#define UMBRA_EDGE_REFLECTING 1     /* the interior, mirrored; the component of a vector across the edge changes its sign */

/* A mesh of blocks of one shape, with numbers from 0 on that all ranks agree on. Its functions are called during calls that make a
 * fabric, umbra_boundary_build and umbra_boundary_remesh only. */
struct umbra_mesh {
    size_t size;                    /* sizeof(struct umbra_mesh) */
    uint32_t cells[3];              /* of a block in each direction, without ghosts; 1 in directions that the mesh lacks */
    uint32_t ghosts[3];             /* layers on each side, not more than cells; 0 in directions that the mesh lacks */
    uint32_t blocks;                /* of the whole mesh */
    uint32_t ranks;                 /* at most 4096 */
    uint32_t most_blocks;           /* that a rank will ever have, if blocks will move; 0: as many as now */
    uint32_t (*owner)(void *context, uint32_t block);
    /* The block in this direction (three numbers -1, 0 or 1), or UMBRA_NO_BLOCK; within a level it must be mutual. A block may
     * be its own neighbour. */
    uint32_t (*neighbour)(void *context, uint32_t block, const int32_t *direction);
    void *context;
    /* Of a mesh of several levels, all three; NULL: there is one. Cells of a level are half as wide as those of the level before in
     * each direction with ghosts, where the number of cells is even and at least twice that of ghosts. Blocks that touch, be it in a
     * corner, differ by one level at most. Then neighbour names the coarser block that lies in a direction if none of the same
     * level does, and UMBRA_NO_BLOCK if those there are finer. A mesh that contradicts itself is -UMBRA_EINVAL. */
    uint32_t (*level)(void *context, uint32_t block);
    /* Which child of its parent a block of level 1 or more is: 1 if it is the upper one in x, and 2 in y, and 4 in z, of the
     * directions with ghosts. */
    uint32_t (*octant)(void *context, uint32_t block);
    /* Where neighbour names no block and finer ones lie in a direction, the one that is this child of its parent, or
     * UMBRA_NO_BLOCK. */
    uint32_t (*finer)(void *context, uint32_t block, const int32_t *direction, uint32_t octant);
};

/* A field: an array of doubles on each block that has it. */
struct umbra_field {
    uint32_t components;            /* values of a cell */
    uint32_t flags;                 /* UMBRA_FIELD_... */
    double allocate;                /* sparse: a strip travels if one value is as far from the default as this, or NaN */
    double deallocate;              /* sparse: up to here a value is nothing; not above allocate */
    double default_value;           /* sparse: what stands for cells where the field is absent */
};

/* Where the arrays are. Its functions are called by the thread that calls the library, which they must not do with the same
 * exchange, and must return. */
struct umbra_arrays {
    size_t size;                    /* sizeof(struct umbra_arrays) */
    /* The array of a field on a block of this rank, or NULL if it is absent: component after component, x fastest, then y,
     * then z, ghosts included. One that is not aligned for doubles is -UMBRA_EINVAL: nothing of it is sent or changed, so with
     * another one the same call goes on. */
    double *(*values)(void *context, uint32_t block, uint32_t field);
    /* Makes a field present, with the default in every cell: 0, or anything else if there is no memory. May be NULL if no
     * field is sparse. */
    int (*allocate)(void *context, uint32_t block, uint32_t field);
    void *context;
};

struct umbra_boundary_options {
    size_t size;                    /* sizeof(struct umbra_boundary_options) */
    uint64_t timeout_ms;            /* of an exchange and of each wait for all ranks; 0: 300 000; UMBRA_FOREVER */
    uint32_t smallest_slot;         /* bytes of a slot to begin with, and at least; 0: 1024 */
    uint32_t reversed;              /* not 0: the last peer and the last channel first; the outcome is the same */
    uint64_t largest_slot;          /* bytes of a slot at most, of which more is fetched; 0: as many as a message has. Not below
                                     * smallest_slot, and 64 and a bit for each channel */
    uint32_t kind;                  /* which exchange, 255 at most: those of a mesh that are open at once are of a kind each, over a
                                     * fabric each, and have no channel in common */
};

struct umbra_boundary_statistics {
    size_t size;                    /* sizeof(struct umbra_boundary_statistics) */
    uint64_t messages;              /* sent, one a peer and exchange */
    uint64_t head_bytes;
    uint64_t payload_bytes;
    uint64_t live;                  /* strips that were sent */
    uint64_t null;                  /* strips that were not, for they hold nothing */
    uint64_t overflows;             /* messages that did not fit into the receiver's slot */
    uint64_t overflow_bytes;
    uint64_t refused;               /* messages that were damaged, repeated, or of another plan or epoch */
    uint64_t receive_bytes;         /* of slots that peers may fill now */
    uint64_t dense_receive_bytes;   /* the same if every slot held everything */
    uint64_t held_receive_bytes;    /* of memory that is held for slots now, in whole pages */
    uint64_t held_send_bytes;       /* the same, for what did not fit into slots of others */
};

/* Makes the memory through which all ranks of a mesh exchange these fields. Each rank is built on it once. */
int umbra_fabric_create(const struct umbra_mesh *mesh, const struct umbra_field *fields, size_t count, umbra_fabric *fabric);
/* A descriptor of that memory, which is closed with the fabric and in programs that are executed: a child gets it by dup2, others
 * by a Unix socket, or as /proc/PID/fd/NUMBER. */
int umbra_fabric_descriptor(umbra_fabric fabric, int *descriptor);
/* Uses the memory behind a descriptor, of which it keeps a copy, for the same mesh and fields as its maker. */
int umbra_fabric_attach(int descriptor, const struct umbra_mesh *mesh, const struct umbra_field *fields, size_t count,
                        umbra_fabric *fabric);
/* Releases the handle; what was built on it stays. */
int umbra_fabric_release(umbra_fabric fabric);

/* Builds the exchange of one rank, with all other ranks: it waits for them. -UMBRA_ECONFLICT: a rank has another mesh, other
 * fields or another kind, of which the detail names the first channel in which they differ, or has handed in what cannot be used: a
 * mesh, options or a place for the handle that are wrong there are told to all. -UMBRA_EINUSE: the rank was built on this fabric
 * before, by this process or another one. */
int umbra_boundary_build(umbra_fabric fabric, uint32_t rank, const struct umbra_mesh *mesh,
                         const struct umbra_boundary_options *options, umbra_boundary *boundary);
/* One whole exchange, waiting in between. -UMBRA_ETIMEOUT: the detail names the ranks, blocks and fields that are missing.
 * -UMBRA_EDESTROYED: the process of a rank has ended that had not sent all; the detail names what is missing likewise. Or an
 * earlier message could not be handed over (-UMBRA_ESYSTEM): from then on each call is that, and the exchange is built anew.
 * -UMBRA_EFULL: allocate had no memory; the detail names this rank, the block and the field. Free some, and call again. */
int umbra_boundary_exchange(umbra_boundary boundary, const struct umbra_arrays *arrays);
/* The same in steps, each for one scope; doing one half after the other gives the same bits. send and receive store whether
 * they are done, and are called again until they are; send may be left waiting while receive goes on. Between send and set the
 * interiors of the arrays must not change. -UMBRA_ENOTREADY: a step before this one is not done; -UMBRA_EFULL of receive: as
 * above. */
int umbra_boundary_start_receive(umbra_boundary boundary, uint32_t scope);
int umbra_boundary_send(umbra_boundary boundary, const struct umbra_arrays *arrays, uint32_t scope, int *ready);
int umbra_boundary_receive(umbra_boundary boundary, const struct umbra_arrays *arrays, uint32_t scope, int *ready);
int umbra_boundary_set(umbra_boundary boundary, const struct umbra_arrays *arrays, uint32_t scope);
/* Fills the ghosts beyond the edges of the domain, of all blocks of this rank, after an exchange; edges has the low and the high
 * one of x, then of y and z. */
int umbra_boundary_fill_edges(umbra_boundary boundary, const struct umbra_arrays *arrays, const uint32_t *edges);
/* Whether a sparse field is present on a block of this rank and holds nothing, ghosts included: what is idle in several looks
 * in a row, one a time step, may be freed between two exchanges. The count moves with the block. NaN is never idle. */
int umbra_boundary_is_idle(umbra_boundary boundary, const struct umbra_arrays *arrays, uint32_t block, uint32_t field, int *idle);
/* Takes another mesh of as many ranks, with all of them, between two exchanges; moving arrays is the program's part.
 * -UMBRA_ENOTREADY: a rank is in the middle of an exchange; -UMBRA_EINVAL: what the mesh says is impossible; and
 * -UMBRA_ECONFLICT on the other ranks then: nothing has changed. If it fails later, the exchange is over. -UMBRA_ETOOLARGE: this
 * rank has more blocks than most_blocks said when the fabric was made. -UMBRA_ETIMEOUT: a rank did not come. -UMBRA_EDESTROYED: the
 * meshes of two ranks differ, or another rank has failed; the detail says which. From then on each exchange, its steps, and another
 * remesh are -UMBRA_EDESTROYED: release it, and make a new fabric. */
int umbra_boundary_remesh(umbra_boundary boundary, const struct umbra_mesh *mesh);
int umbra_boundary_statistics(umbra_boundary boundary, struct umbra_boundary_statistics *statistics);
/* Releases the handle. Ranks that wait for this one find out at their deadline. In a child that was forked off, this and all else of
 * an exchange of its parent is -UMBRA_ESTALE; on a fabric of umbra.h it may build a rank of its own. */
int umbra_boundary_release(umbra_boundary boundary);

/* ---- chained calls: a function on many processes of a host, a tree, one answer ---- */

typedef uint64_t umbra_station;     /* where members meet */
typedef uint64_t umbra_member;
typedef uint64_t umbra_call;        /* of its member */
typedef uint64_t umbra_offer;       /* of its member */

struct umbra_station_options {
    size_t size;                    /* sizeof(struct umbra_station_options) */
    uint32_t members;               /* seats, at most 1024 */
    uint32_t messages;              /* that can wait for a member; 0: 128 */
    uint32_t message_bytes;         /* of the longest message; 0: 4096 */
    uint32_t reserved;
    uint64_t offer_bytes;           /* in which each member can offer data, and as many for its long replies */
};

/* Makes a meeting place with empty seats; it lives as long as somebody has it. */
int umbra_station_create(const struct umbra_station_options *options, umbra_station *station);
/* A new descriptor of it, which the caller closes; it is closed in programs that are executed, too: a child gets it by dup2, others by
 * a Unix socket, or as /proc/PID/fd/NUMBER. A child that was only forked off has it as it is. */
int umbra_station_share(umbra_station station, int *descriptor);
/* Comes to it by a descriptor, which stays the caller's. */
int umbra_station_attach(int descriptor, umbra_station *station);
int umbra_station_detach(umbra_station station);

struct umbra_gpc_options {
    size_t size;                    /* sizeof(struct umbra_gpc_options) */
    uint32_t calls;                 /* under way at once; 0: 64 */
    uint32_t functions;             /* registered at once; 0: 64 */
    uint64_t call_bytes;            /* of each call: list, header, data, reply, replies of all children; 0: 16 384 */
    uint64_t answer_bytes;          /* of each remembered answer; 0: 128 */
    uint32_t remembered;            /* calls, after their end, 2^31 at most; 0: 256. A request that so many later calls of its
                                     * maker overtake is refused (UMBRA_GPC_CODE_REPLY_GONE): more for members to whom one maker
                                     * sends many short calls beside long ones */
    uint32_t reserved;
};

/* Takes the seat of member node, for a process or a thread; options may be NULL. -UMBRA_EINUSE: somebody sits there and lives;
 * -UMBRA_ESYSTEM: there is no memory for what the options ask.
 * A member does its part only while a call on it runs: let it serve, or wait for a call of its own. Calls on one member take
 * turns, in their order. One whose turn does not come within its timeout, or that of the call that it makes, is -UMBRA_ETIMEOUT,
 * one without a timeout -UMBRA_EINUSE after a second; the detail names the member, and nothing has happened. In a child that was
 * forked off the handle is -UMBRA_ESTALE: it takes a seat of its own. */
int umbra_gpc_join(umbra_station station, uint32_t node, const struct umbra_gpc_options *options, umbra_member *member);
/* Takes another seat: what comes for it is done here, without messages in between. */
int umbra_gpc_house(umbra_member member, uint32_t node);
/* Leaves and releases the handle; the others are told, and calls that need it fail by its number. Threads that serve the member
 * return from that soon. Waits a second for one that uses it otherwise, or runs a function, -UMBRA_EINUSE if it goes on;
 * afterwards no function of the member runs. */
int umbra_gpc_leave(umbra_member member);

/* A rank's seat, and who lives at the agents of the job. */
struct umbra_session_seat {
    size_t size;                    /* sizeof(struct umbra_session_seat) */
    uint32_t node;                  /* the rank's own member */
    uint32_t resident;              /* the member that lives at the agent for this rank */
    uint32_t first;                 /* the first member that lives at this agent */
    uint32_t residents;             /* how many live at each agent, one behind the other */
    uint32_t members;               /* of each place: how far the first one at the next agent is; that of the first agent is 0 */
    uint32_t places;                /* agents whose members know each other */
};

/* Takes this rank's seat where the members meet that live at its first service process. Those do their part while the rank computes
 * or sleeps: they run "umbra.barrier", "umbra.broadcast", "umbra.gather", "umbra.reduce" and "umbra.count", as docs/calls.md says.
 * The rank's member has these functions too, to combine what they answer: such calls have the mode UMBRA_GPC_COORDINATE.
 * -UMBRA_EINUSE: the rank has its seat already; -UMBRA_EINVAL: the agent has no member for it, start all with a larger --members;
 * -UMBRA_EUNREACHABLE: the agent is on another machine; -UMBRA_EFULL: it cannot have members, as in a job with more agents than
 * can be joined; -UMBRA_EPEER: it died; -UMBRA_ETIMEOUT: it did not answer within timeout_ms of the join options.
 * The seat is left by umbra_gpc_leave, and not with the session. */
int umbra_session_calls(umbra_session session, struct umbra_session_seat *seat, umbra_member *member);

#define UMBRA_GPC_NOBODY UINT32_MAX

/* Why a function runs. */
#define UMBRA_GPC_INIT 1            /* the request has come */
#define UMBRA_GPC_PROBE 2           /* it was pending */
#define UMBRA_GPC_WAIT 3            /* as callback: the answer of a child has come, to be combined into the reply */

/* What it returns: 0, or this, or any other number, by which the call fails. */
#define UMBRA_GPC_PENDING (-1)      /* run it again in a while; a callback fails by it */

/* What it is given; valid until it returns. */
struct umbra_gpc_work {
    size_t size;
    uint32_t phase;                 /* UMBRA_GPC_INIT, _PROBE, _WAIT */
    uint32_t node;                  /* the member that runs it */
    uint32_t maker;                 /* who made the call */
    uint32_t parent;                /* who sent the request; UMBRA_GPC_NOBODY at the maker */
    const void *header;             /* of the request */
    size_t header_length;
    const void *data;
    size_t data_length;
    void *reply_header;             /* of this member: write, and say how much of it is the reply */
    size_t reply_header_capacity;
    size_t reply_header_length;
    void *reply_data;
    size_t reply_data_capacity;
    size_t reply_data_length;
    uint32_t child;                 /* in UMBRA_GPC_WAIT, else UMBRA_GPC_NOBODY */
    uint32_t child_members;         /* of its subtree, all of which ended well */
    uint32_t last;                  /* whether no other answer comes after this one */
    uint32_t subtree;               /* members below and with this one */
    const void *child_header;
    size_t child_header_length;
    const void *child_data;
    size_t child_data_length;
    const void *local;              /* for umbra_gpc_work_members, _list, _rewrite, _call, _start, ... */
    uint64_t offered_length;        /* of data that is offered, for umbra_gpc_work_read; data is NULL then. Else 0 */
};

/* It may call everything but functions on its own member (-UMBRA_EDEADLOCK); for calls of its own there are umbra_gpc_work_start
 * and umbra_gpc_work_answer. A call on another member of the process has a timeout other than UMBRA_FOREVER: that member may be
 * running a function which waits for this one. It is run by whichever thread uses the member. */
typedef int (*umbra_gpc_function)(void *user, struct umbra_gpc_work *work);

/* The members below and with the one that runs it, as many as work->subtree says: itself, then its children, each with all that is
 * below it behind it. At the maker these are all members of the call. Only while the function runs, as callback as well. */
int umbra_gpc_work_members(const struct umbra_gpc_work *work, uint32_t *members, size_t capacity, size_t *count);

/* All members of a call with UMBRA_GPC_FULL_LIST, in one order everywhere: that of umbra_gpc_work_members at the maker, which is the
 * first. Those below and with this one follow one another in it. -UMBRA_EINVAL: the call was made without. */
int umbra_gpc_work_list(const struct umbra_gpc_work *work, uint32_t *members, size_t capacity, size_t *count);

/* Replaces the header that the children of the member are given that runs the function, in a call with UMBRA_GPC_REWRITE: the last one
 * counts, and without any they get that of the member. -UMBRA_EINVAL: the call was made without, or it is a callback, and the children
 * have theirs; -UMBRA_ETOOLONG: requests of the call have no room for it. */
int umbra_gpc_work_rewrite(const struct umbra_gpc_work *work, const void *header, size_t length);

/* One call, the same for all members that run it, and never that of another one. */
struct umbra_gpc_name {
    uint32_t maker;                 /* who made it */
    uint32_t life;                  /* which of those that sat at this seat one after the other */
    uint64_t number;                /* which of its calls: the next one has the next number */
};

/* Which call it runs for: those of several are told apart by it, as when a function is run again that was pending. */
int umbra_gpc_work_call(const struct umbra_gpc_work *work, struct umbra_gpc_name *name);

/* Makes a function callable by its name, which is the same for all members; -UMBRA_EKEYTAKEN: there is one. */
int umbra_gpc_register(umbra_member member, const char *name, umbra_gpc_function function, void *user);
/* Takes no new calls of it; calls under way still run it. */
int umbra_gpc_release(umbra_member member, const char *name);

/* Trees over the maker, who stands first, and the members after it in their order. */
#define UMBRA_TREE_BINARY 0
#define UMBRA_TREE_BINOMIAL 1
#define UMBRA_TREE_FLAT 2
#define UMBRA_TREE_CHAIN 3
#define UMBRA_TREE_KARY 4           /* with width children each */
#define UMBRA_TREE_KNOMIAL 5        /* of base width */
#define UMBRA_TREE_AUTO 6           /* chosen by how many members and bytes there are, and by where members are */
#define UMBRA_TREE_ROOT UINT32_MAX  /* parent of position 0 in a stated tree */

struct umbra_gpc_edge {
    uint32_t parent;
    uint32_t child;
};

/* The parents of so many positions, for umbra_gpc_call, from as many edges less one: those of each parent to its children.
 * -UMBRA_EINVAL: an edge has no position at an end, position 0 has a parent, or another one has two, or none; the detail names it.
 * What goes in a circle is refused when a call is made over it. */
int umbra_gpc_parents(const struct umbra_gpc_edge *edges, size_t count, uint32_t *parents, size_t positions);

/* How a call is treated. */
#define UMBRA_GPC_COLLECT 1         /* go on after failures and report all of them */
#define UMBRA_GPC_CANCEL_ON_FAIL 2  /* stop those who have not begun after a failure */
#define UMBRA_GPC_ORDERED 4         /* combine in the order of the children */
#define UMBRA_GPC_CUT_THROUGH 8     /* send the request on before the function runs */
#define UMBRA_GPC_DEDUP 32          /* whoever is listed again counts once, where it is listed first */
#define UMBRA_GPC_RENDEZVOUS 64     /* replies stay with their members until they are combined, in any case where they are too
                                     * long for messages: up to offer_bytes of the station */
#define UMBRA_GPC_SKIP_DEAD 128     /* members known to be dead are left out, and named as unreached_members, also of a call that is
                                     * done: the others have run it then. A stated tree is one over all members: whoever hangs
                                     * below one that is left out hangs below the next one above it, so the maker may have more
                                     * children than it says, also with UMBRA_GPC_COORDINATE, where one answer may be expected */
#define UMBRA_GPC_FULL_LIST 256     /* every member is given all members of the call, for umbra_gpc_work_list: their names, of 4 bytes
                                     * each, replace those of the subtree in every request, which has 8 bytes more besides */
#define UMBRA_GPC_REWRITE 512       /* functions may replace the header for the children of their members, by umbra_gpc_work_rewrite;
                                     * not with UMBRA_GPC_CUT_THROUGH. Such a call needs room for such a header at every member */
#define UMBRA_GPC_COORDINATE 65536  /* the function does not run at the maker */

/* As long as a call may take; within another one UMBRA_FOREVER is as long as that. */
#define UMBRA_GPC_LONGEST_MS 4294967

struct umbra_gpc_call {
    size_t size;                    /* sizeof(struct umbra_gpc_call) */
    const char *function;
    const char *callback;           /* NULL: nothing is answered */
    const uint32_t *members;        /* the maker takes part whether it is among them or not */
    size_t count;
    const void *header;             /* copied, as is data */
    size_t header_length;
    const void *data;
    size_t data_length;
    size_t reply_header;            /* bytes that every member may answer at most */
    size_t reply_data;
    uint32_t tree;                  /* UMBRA_TREE_..., unless one of the next two states it */
    uint32_t width;
    const uint32_t *parents;        /* of every position, UMBRA_TREE_ROOT at position 0; doubles that count once have one */
    uint32_t (*parent_of)(void *user, uint32_t count, uint32_t position);
    void *user;
    uint32_t mode;                  /* UMBRA_GPC_..., added up */
    uint32_t reserved;
    uint64_t timeout_ms;            /* 0: 1000; at most UMBRA_GPC_LONGEST_MS, or -UMBRA_EINVAL */
    umbra_offer offer;              /* 0: none; else in place of data */
    uint64_t offer_offset;          /* the part of it that functions read */
    uint64_t offer_length;          /* 0: all behind the offset */
};

/* How far a member had come that failed. */
#define UMBRA_GPC_STAGE_SETUP 1     /* it was accepting the request */
#define UMBRA_GPC_STAGE_FUNC 2      /* its function was running, or was next */
#define UMBRA_GPC_STAGE_FORWARD 3   /* it was sending the request on */
#define UMBRA_GPC_STAGE_CHILD 4     /* it was waiting for this child */
#define UMBRA_GPC_STAGE_CALLBACK 5  /* it was combining the answer of a child */
#define UMBRA_GPC_STAGE_REPLY 6     /* it was answering */
#define UMBRA_GPC_STAGE_CANCELLED 7 /* the call was given up by its maker */
#define UMBRA_GPC_STAGE_DELIVER 8   /* the reply was to be put where its maker wanted it, which none of these functions does */

/* Why it failed; in brackets what detail is. */
#define UMBRA_GPC_CODE_FAULT 1              /* the function said so [its number; of a callback, the child] */
#define UMBRA_GPC_CODE_PANIC 2              /* the function panicked [of a callback, the child] */
#define UMBRA_GPC_CODE_UNKNOWN_FUNC 3       /* no such function is registered there [its tag] */
#define UMBRA_GPC_CODE_UNKNOWN_CALLBACK 4   /* no such callback is registered there [its tag] */
#define UMBRA_GPC_CODE_VERSION 5            /* another version of the protocol */
#define UMBRA_GPC_CODE_MALFORMED 6          /* the request contradicts itself */
#define UMBRA_GPC_CODE_TOO_LARGE 7          /* the request is larger than a call may be there [its bytes] */
#define UMBRA_GPC_CODE_STALE_ROOT 8         /* the maker has been started anew since */
#define UMBRA_GPC_CODE_SECOND_PARENT 9      /* the call came from another parent before */
#define UMBRA_GPC_CODE_REPLY_GONE 10        /* answered, and the answer is not kept; or more later calls than are remembered came first */
#define UMBRA_GPC_CODE_NO_RESOURCE 11       /* the child had no room for the call until the deadline */
#define UMBRA_GPC_CODE_UNKNOWN_ID 12        /* the member is not known there */
#define UMBRA_GPC_CODE_PEER_DEAD 13         /* the member died */
#define UMBRA_GPC_CODE_TIMEOUT 14           /* the deadline passed */
#define UMBRA_GPC_CODE_REPLY_TOO_LARGE 15   /* the reply is larger than the call allows [its bytes] */
#define UMBRA_GPC_CODE_CANCELLED 16         /* the call was given up */
#define UMBRA_GPC_CODE_DUPLICATE_ID 17      /* the request lists a member twice that lives there [the member] */
#define UMBRA_GPC_CODE_UNDECODABLE 18       /* what came is not of the type that the function takes */
#define UMBRA_GPC_CODE_MEMORY_GONE 19       /* the memory for the reply was freed */
#define UMBRA_GPC_CODE_TRANSPORT 20         /* no message reaches the member */

struct umbra_gpc_failure {
    uint32_t member;                /* where it began */
    uint32_t stage;                 /* UMBRA_GPC_STAGE_... */
    uint32_t code;                  /* UMBRA_GPC_CODE_...; umbra_error_detail says it in words */
    uint32_t depth;                 /* levels below the maker */
    uint32_t detail;                /* what the function returned, a length, or the child concerned, as in callbacks */
    uint32_t members;               /* that it took with it, with itself */
};

struct umbra_gpc_answer {
    size_t size;                    /* sizeof(struct umbra_gpc_answer) */
    uint32_t ok;                    /* what became of the members: the four add up */
    uint32_t failed;
    uint32_t unreached;             /* their function has not run and will not; of a call that is done, those who were left out */
    uint32_t unknown;               /* it may have run, once */
    void *header;                   /* the reply, with room for it */
    size_t header_capacity;
    size_t header_length;
    void *data;
    size_t data_capacity;
    size_t data_length;
    struct umbra_gpc_failure *failures; /* the first of them; may be NULL */
    size_t failure_capacity;
    size_t failure_count;
    uint32_t *unreached_members;    /* the first of those that certainly were not reached; may be NULL */
    size_t unreached_capacity;
    size_t unreached_count;         /* at most unreached: nobody is named of whom it is not certain; there may be room for fewer */
};

/* Begins a call and does not wait. What is wrong with it is said before anything is sent, and the next call is taken.
 * -UMBRA_ENOFUNCTION: the function or the callback is not registered here; -UMBRA_ETOOLONG: a header, data, replies, members or
 * levels are more than calls may have; -UMBRA_EPEER: a member is dead, and not to be left out; -UMBRA_EFULL: too many calls are open here, retry when one
 * has ended; -UMBRA_EINVAL: all else, such as a member that is listed twice or is not known, a tree that is none, a reply that
 * no callback combines, or modes that exclude each other. The detail says which member, position or length it is. */
int umbra_gpc_start(umbra_member member, const struct umbra_gpc_call *wanted, umbra_call *call);
/* Whether it has ended; serves others once. */
int umbra_gpc_test(umbra_member member, umbra_call call, int *ended);
/* Waits for it, serves others meanwhile, and takes its answer, which may be NULL. -UMBRA_ETIMEOUT: it goes on. -UMBRA_ECALL: it
 * failed. -UMBRA_ESIZE: the reply does not fit, its lengths were stored, and it can be asked for again. */
int umbra_gpc_wait(umbra_member member, umbra_call call, uint64_t timeout_ms, struct umbra_gpc_answer *answer);
/* Both, for answers with room for whatever the call allows: one that does not fit cannot be asked for again. */
int umbra_gpc_exec(umbra_member member, const struct umbra_gpc_call *wanted, struct umbra_gpc_answer *answer);
/* Makes a call over five trees so many times in turn, at least once and at most 10,000 times, and says over which half of its calls
 * were over the soonest: put that into `tree` and `width` of the calls that follow. These are ten calls a round, each of which may
 * take `timeout_ms`. The function runs everywhere each time, and the answers are thrown away. What states the tree of this call
 * is checked, and not used. -UMBRA_ECALL: one of them failed; -UMBRA_ETIMEOUT: one was not over in time; nothing is stored then. */
int umbra_gpc_calibrate(umbra_member member, const struct umbra_gpc_call *wanted, uint32_t rounds, uint32_t *tree,
                        uint32_t *width);
/* Gives a call up; its answer says so. */
int umbra_gpc_cancel(umbra_member member, umbra_call call);
/* Has a call made by a function that is run as part of another one, and says which it is of its calls: 0, 1, ... It begins when
 * the function has returned UMBRA_GPC_PENDING, and ends with the call that it belongs to; the function is run again when it has
 * ended. Not in callbacks (-UMBRA_EINVAL); at most 64 (-UMBRA_EFULL). Only while the function runs. */
int umbra_gpc_work_start(const struct umbra_gpc_work *work, const struct umbra_gpc_call *wanted, uint32_t *number);
/* Its answer, which may be asked for again. -UMBRA_ETIMEOUT: it goes on; -UMBRA_ESTALE: no such call was begun; -UMBRA_ECALL: it
 * failed; else why it could not be begun. */
int umbra_gpc_work_answer(const struct umbra_gpc_work *work, uint32_t number, struct umbra_gpc_answer *answer);
/* Serves the calls of others for this time, or until another thread wants to leave the member: 0, also if that one did not leave
 * in the end (umbra_gpc_leave: -UMBRA_EINUSE). The next call is -UMBRA_ESTALE if it did. So whoever serves for ever repeats it with
 * UMBRA_FOREVER as long as it is 0. */
int umbra_gpc_serve(umbra_member member, uint64_t timeout_ms);
/* Has the calling thread, and what it starts from now on, run in short time slices, or in usual ones again: no more of a processor
 * than before, but sooner, for threads that mostly wait and share processors with others that compute. short_now: 0 also where the
 * system (Linux before 6.12) has no such thing, or the thread is not of normal priority. -UMBRA_ESYSTEM: it is not allowed. */
int umbra_thread_slices(int are_short, int *short_now);

/* What a member and those that it houses have done; all but the first are counts. */
struct umbra_gpc_figures {
    size_t size;                    /* sizeof(struct umbra_gpc_figures) */
    uint64_t open;                  /* calls under way here, its own and those of others */
    uint64_t requests;              /* sent, those sent again included */
    uint64_t request_bytes;
    uint64_t responses;             /* good answers sent */
    uint64_t response_bytes;
    uint64_t failures;              /* bad answers sent */
    uint64_t repeated;              /* answers sent again */
    uint64_t busy;                  /* refusals for lack of room */
    uint64_t credits;               /* notices that there is room again */
    uint64_t asks;                  /* questions to children whether they live */
    uint64_t alive;                 /* answers to those */
    uint64_t cancels;               /* sent */
    uint64_t at_home;               /* parts in calls whose request came from here, without a message */
    uint64_t runs;                  /* of functions and callbacks */
    uint64_t stale;                 /* messages dropped that nobody waits for */
    uint64_t malformed;             /* messages dropped that are none */
};

int umbra_gpc_figures(umbra_member member, struct umbra_gpc_figures *figures);

/* Copies data once to where the functions of calls over it read it, however many members there are; it stays until it is taken
 * back or the member leaves. -UMBRA_EFULL: there is no room, or there are 32 offers of this member: take one back.
 * -UMBRA_ENEVER: more bytes than the station has for a member. */
int umbra_gpc_offer(umbra_member member, const void *data, size_t length, umbra_offer *offer);
/* Nobody is to read it any more, usually after the call. Whoever still reads is told that it was taken back. */
int umbra_gpc_take_back(umbra_member member, umbra_offer offer);
/* Copies a part of the data that the call is over, for a function that runs. -UMBRA_EREVOKED: it was taken back, or its host was
 * lost; the buffer holds anything then. -UMBRA_EBOUNDS: it has fewer bytes. -UMBRA_EINVAL: data came with the request. */
int umbra_gpc_work_read(const struct umbra_gpc_work *work, uint64_t offset, void *buffer, size_t length);

/* Which part of the data a call of a stream is about: functions find it in front of the header. */
struct umbra_gpc_segment {
    uint64_t offset;
    uint64_t length;
    uint64_t total;
};

struct umbra_gpc_window {
    size_t size;                    /* sizeof(struct umbra_gpc_window) */
    size_t segment_bytes;
    uint32_t calls;                 /* under way at once; so many segments are offered */
    uint32_t reserved;
};

/* Is given the reply for each segment, in their order; may call everything but functions on the member that streams. */
typedef void (*umbra_gpc_each)(void *user, const struct umbra_gpc_segment *segment, const void *header, size_t header_length,
                               const void *data, size_t data_length);

/* Makes the call for each segment of wanted->data, which can have any length, and waits for all. It ends with the first segment that
 * fails, which the detail names: replies of those before it were given to each, calls of those after it are given up. answer and
 * each may be NULL; answer says who failed. */
int umbra_gpc_stream(umbra_member member, const struct umbra_gpc_call *wanted, const struct umbra_gpc_window *window,
                     umbra_gpc_each each, void *user, struct umbra_gpc_answer *answer);

#ifdef __cplusplus
}
#endif

#endif /* UMBRA_H */
