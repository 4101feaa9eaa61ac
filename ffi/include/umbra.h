/* umbra.h: the C interface of Umbra.
 *
 * A rank joins a job, gets groups, asks the endpoint cache who is where, exports memory, reads that of others, and leaves.
 *
 * Every function returns 0 or a negative code (-UMBRA_E...). Outputs come last and are written only on success, with one
 * exception: UMBRA_ESIZE stores the needed length. Handles are 64-bit ids: one that was released is -UMBRA_ESTALE, never a
 * crash. Structures that may grow begin with their size, which the caller sets to sizeof. All functions may be called from
 * any thread; calls on one session take turns.
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
#define UMBRA_EFULL 8               /* no room: retry after a completion */
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

/* ---- the library ---- */

/* The version of the library. */
int umbra_library_version(uint32_t *major, uint32_t *minor, uint32_t *patch);

/* What a code means, in one sentence: cut to capacity bytes with a final zero; its whole length goes to length unless that
 * is NULL. */
int umbra_error_text(int code, char *buffer, size_t capacity, size_t *length);

/* The whole story of the last failure in this thread, for people. */
int umbra_error_detail(char *buffer, size_t capacity, size_t *length);

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
    uint32_t host;                  /* this host's place in the configuration */
    uint32_t local_rank;            /* number among the ranks of this host */
    uint32_t local_size;            /* ranks on this host */
    uint32_t shadows;               /* shadow service processes of each rank; 0: 1 */
    uint64_t timeout_ms;            /* patience of every call that waits; 0: 10 000 */
};

/* Joins the job and its world group; returns when that is full. Memory that is exported over RDMA goes through the device that
 * UMBRA_DEVICE in the environment names, or else the configuration file, or else the first that carries data. */
int umbra_session_join(const struct umbra_join_options *options, umbra_session *session);
/* Leaves: revokes what is exported, leaves all groups. Releases the handle in any case. */
int umbra_session_leave(umbra_session session);
/* The world group, as a handle of its own. */
int umbra_session_world(umbra_session session, umbra_group *world);
/* The rank's shadow service processes, in order. */
int umbra_session_shadows(umbra_session session, uint32_t *buffer, size_t capacity, size_t *count);
/* How often the system woke this process for its links: stands still while others read its memory. */
int umbra_session_wakeups(umbra_session session, uint64_t *wakeups);

/* ---- groups ---- */

/* Creates a group together with its other members, in this order; returns when it is full. */
int umbra_group_create(umbra_session session, uint32_t id, const uint32_t *members, size_t count, umbra_group *group);
/* Leaves a group and releases its handle; does not wait. The world group's handle is only released. */
int umbra_group_free(umbra_group group);
/* Leaves a group, waits until it has ended for all its members, releases its handle. */
int umbra_group_end(umbra_group group);

/* ---- look-ups: no message, no lock against other look-ups ---- */

struct umbra_endpoint {
    size_t size;                    /* sizeof(struct umbra_endpoint) */
    uint32_t world_rank;
    uint32_t service_process;       /* the first shadow service process */
    uint32_t host;
    uint32_t shadows;               /* how many shadow service processes */
};

/* The hot look-up: the process of a rank and its first shadow service process. */
int umbra_group_lookup(umbra_group group, uint32_t rank, uint32_t *world_rank, uint32_t *service_process);
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

/* Allocates zeroed memory; it belongs to the region until that is freed. */
int umbra_region_allocate(umbra_session session, size_t len, void **memory, umbra_region *region);
/* Exports it for reading; returns when all shadow service processes can read it. key may be NULL. */
int umbra_region_export(umbra_region region, uint64_t *key);
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

#ifdef __cplusplus
}
#endif

#endif /* UMBRA_H */
