/* In the place of libibverbs: a device whose card does posted work only when a queue pair is destroyed.
 *
 * FAULT: "reset" if the second reset of a queue pair fails, "queue" if there are no queue pairs.
 * FORK_STATUS: what is said of forks. How often the library was told to care for them is printed with each list. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

struct pair {
    struct ibv_qp qp;
    void *at;
    size_t length;
};

static struct ibv_device device = { .name = "fake0" };
static int told, resets, pairs;

static int is_fault(const char *what)
{
    const char *fault = getenv("FAULT");
    return fault && !strcmp(fault, what);
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
    static struct ibv_device *all[] = { &device, NULL };
    fprintf(stderr, "told %d times\n", told);
    *count = 1;
    return all;
}

void ibv_free_device_list(struct ibv_device **list) { (void)list; }
const char *ibv_get_device_name(struct ibv_device *which) { return which->name; }

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *into) { return (void)cq, (void)count, (void)into, 0; }
static int req_notify_cq(struct ibv_cq *cq, int solicited) { return (void)cq, (void)solicited, 0; }
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *first, struct ibv_recv_wr **refused)
{
    return (void)qp, (void)first, (void)refused, ENOSYS;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **refused)
{
    struct pair *pair = (struct pair *)qp;
    (void)refused;
    pair->at = (void *)(uintptr_t)first->sg_list->addr;
    pair->length = first->sg_list->length;
    return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *which)
{
    struct ibv_context *context = calloc(1, sizeof *context);
    context->device = which;
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
    (void)context, (void)port;
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
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    (void)pd, (void)address, (void)length, (void)access;
    return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
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
    struct ibv_cq *cq = calloc(1, sizeof *cq);
    (void)count, (void)with, (void)channel, (void)vector;
    cq->context = context;
    return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
    struct pair *pair;
    (void)wanted;
    if (is_fault("queue")) {
        errno = ENOMEM;
        return NULL;
    }
    pair = calloc(1, sizeof *pair);
    pair->qp.context = pd->context;
    pair->qp.qp_num = ++pairs;
    return &pair->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *to, int mask)
{
    (void)mask;
    if (to->qp_state == IBV_QPS_RESET) {
        if (++resets == 2 && is_fault("reset"))
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

/* Nobody here calls these. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **with)
{
    return (void)channel, (void)cq, (void)with, -1;
}
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
