/* In the place of libibverbs: two devices whose cards do posted work only when a queue pair is destroyed.
 *
 * FAULT: "reset" if the second reset of a queue pair fails, "queue" if there are no queue pairs, "poll" if no completions can
 * be polled once something was posted, "stuck" if that is so and no reset succeeds but the first, "early" and "event" if there are
 * events at once that cannot be taken: not yet, or never. With "arm" and "gone" work is done at once; with "arm" nothing makes an
 * event, and with "gone" the first device is away as long as the file "away" is beside this library, and silent for ever for
 * those who had it open when somebody saw that. As long as the file "full" is there, the first device has no room for queue pairs;
 * as long as "slow" is there, it tells of no end, and makes the file "begun" when it is given work.
 * FORK_STATUS: what is said of forks. How often the library was told to care for them is printed with each list. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

enum { ROOM = 64 };

struct opened {
    struct ibv_context context;
    unsigned life;
};

struct queue {
    struct ibv_cq cq;
    uint64_t done[ROOM];
    unsigned first, last;
    int posted;
};

struct pair {
    struct ibv_qp qp;
    void *at;
    size_t length;
};

static struct ibv_device first = { .name = "fake0" }, second = { .name = "fake1" };
static int told, resets, pairs, was_away;
static unsigned life;

static int is_fault(const char *what)
{
    const char *fault = getenv("FAULT");
    return fault && !strcmp(fault, what);
}

static int is_there(const char *file)
{
    const char *folder = getenv("LD_LIBRARY_PATH");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", file);
    return !access(path, F_OK);
}

static int is_away(void)
{
    int away = is_there("away");
    life += away && !was_away;
    return was_away = away;
}

static int is_gone(struct ibv_context *context)
{
    struct opened *opened = (struct opened *)context;
    return context->device == &first && (is_away() || opened->life != life);
}

static int is_slow(struct ibv_context *context)
{
    return context->device == &first && is_there("slow");
}

static void begin(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/begun", getenv("LD_LIBRARY_PATH"));
    close(open(path, O_CREAT | O_WRONLY, 0600));
}

/* What a call that makes something returns. */
static void *unless_gone(struct ibv_context *context, void *made)
{
    if (!is_gone(context))
        return made;
    free(made);
    errno = EIO;
    return NULL;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
    const char *status = getenv("FORK_STATUS");
    return status ? atoi(status) : IBV_FORK_UNNEEDED;
}

int ibv_fork_init(void)
{
    told++;
    return 0;
}

struct ibv_device **ibv_get_device_list(int *count)
{
    static struct ibv_device *all[] = { &first, &second, NULL };
    fprintf(stderr, "told %d times\n", told);
    *count = is_away() ? 1 : 2;
    return all + 2 - *count;
}

void ibv_free_device_list(struct ibv_device **list) { (void)list; }
const char *ibv_get_device_name(struct ibv_device *which) { return which->name; }

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *into)
{
    struct queue *queue = (struct queue *)cq;
    int told = 0;
    if (queue->posted && (is_fault("poll") || is_fault("stuck")))
        return -1;
    if (is_slow(cq->context))
        return 0;
    for (; told < count && queue->first != queue->last; told++, queue->first++) {
        into[told].wr_id = queue->done[queue->first % ROOM];
        into[told].status = IBV_WC_SUCCESS;
        into[told].opcode = IBV_WC_RDMA_READ;
    }
    return told;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)solicited;
    if (is_fault("arm"))
        return EIO;
    if (is_fault("early") || is_fault("event"))
        eventfd_write(cq->channel->fd, 1);
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *first, struct ibv_recv_wr **refused)
{
    return (void)qp, (void)first, (void)refused, ENOSYS;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **refused)
{
    struct pair *pair = (struct pair *)qp;
    struct queue *queue = (struct queue *)qp->send_cq;
    (void)refused;
    queue->posted = 1;
    if (is_gone(qp->context))
        return 0;
    if (is_fault("arm") || is_fault("gone")) {
        memcpy((void *)(uintptr_t)first->sg_list->addr, (void *)(uintptr_t)first->wr.rdma.remote_addr,
               first->sg_list->length);
        queue->done[queue->last++ % ROOM] = first->wr_id;
        if (is_slow(qp->context))
            begin();
        return 0;
    }
    pair->at = (void *)(uintptr_t)first->sg_list->addr;
    pair->length = first->sg_list->length;
    return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *which)
{
    struct opened *opened = calloc(1, sizeof *opened);
    struct ibv_context *context = &opened->context;
    context->device = which;
    opened->life = life;
    context->async_fd = eventfd(0, 0);
    context->ops.poll_cq = poll_cq;
    context->ops.req_notify_cq = req_notify_cq;
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    close(context->async_fd);
    free(context);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *into)
{
    (void)context;
    into->phys_port_cnt = 1;
    return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *older)
{
    /* The older form is a prefix of this one. */
    struct ibv_port_attr *into = (struct ibv_port_attr *)older;
    (void)port;
    if (is_gone(context))
        return EIO;
    into->state = IBV_PORT_ACTIVE;
    into->active_mtu = IBV_MTU_1024;
    into->gid_tbl_len = 1;
    return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *into,
                      uint32_t flags, size_t size)
{
    (void)context, (void)port, (void)index, (void)flags, (void)size;
    into->gid.raw[15] = 1;
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    pd->context = context;
    return unless_gone(context, pd);
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    (void)address, (void)length, (void)access;
    return unless_gone(pd->context, mr);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = unless_gone(context, calloc(1, sizeof *channel));
    if (!channel)
        return NULL;
    channel->context = context;
    channel->fd = eventfd(0, 0);
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    free(channel);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int count, void *with, struct ibv_comp_channel *channel,
                             int vector)
{
    struct queue *queue = calloc(1, sizeof *queue);
    (void)count, (void)with, (void)vector;
    queue->cq.context = context;
    queue->cq.channel = channel;
    return unless_gone(context, queue);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
    struct pair *pair;
    if (is_fault("queue") || (pd->context->device == &first && is_there("full"))) {
        errno = ENOMEM;
        return NULL;
    }
    pair = calloc(1, sizeof *pair);
    pair->qp.context = pd->context;
    pair->qp.qp_num = ++pairs;
    pair->qp.send_cq = wanted->send_cq;
    return unless_gone(pd->context, pair);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *to, int mask)
{
    (void)mask;
    if (is_gone(qp->context))
        return EIO;
    if (to->qp_state == IBV_QPS_RESET) {
        resets++;
        if ((resets == 2 && is_fault("reset")) || (resets > 1 && is_fault("stuck")))
            return EIO;
        ((struct pair *)qp)->length = 0;
    }
    return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct pair *pair = (struct pair *)qp;
    if (pair->length)
        memset(pair->at, 0xee, pair->length);
    free(pair);
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **with)
{
    (void)channel, (void)cq, (void)with;
    errno = is_fault("early") ? EAGAIN : EIO;
    return -1;
}

/* Nobody here calls these. */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count) { (void)cq, (void)count; }
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *wanted)
{
    return (void)pd, (void)wanted, NULL;
}
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *to, int mask)
{
    return (void)srq, (void)to, (void)mask, ENOSYS;
}
int ibv_destroy_srq(struct ibv_srq *srq) { return (void)srq, ENOSYS; }
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    return (void)context, (void)event, -1;
}
void ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }
