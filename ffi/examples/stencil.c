/* The main loop of a stencil application: threads that load, threads that compute, and a cache of slots between them.
 *
 * usage: stencil WIDTH HEIGHT RADIUS SLOTS LOADERS COMPUTERS [wait]
 *
 * A field of WIDTH x HEIGHT values is larger than the SLOTS that fit into memory. Each output point is the sum of the box
 * of RADIUS around it, row by row. The main thread submits the points; what is to be loaded and computed comes back by two
 * functions. With `wait` it waits for the slots of each point before it names the next one, so that it never is far ahead
 * of the loads, and less of the future is known. The sums are compared with those of a plain loop. Exits with 0 only if all of them are right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "umbra.h"

/* A load or a computation. */
struct work {
    struct work *next;
    uint64_t name;                  /* of an input, or of an output point */
    uint64_t group;
    size_t count;
    uint32_t slots[];
};

/* Work for the threads of one kind. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct work *first, **last;
    int closed;
};

struct application {
    umbra_stencil stencil;
    struct umbra_stencil_calls calls;
    struct queue loads, computations;
    double *slots;                  /* the memory of the slots */
    double *sums;                   /* the output */
    pthread_mutex_t lock;
    pthread_cond_t freed;
    uint64_t done;                  /* output points that were computed */
    uint32_t width, height, radius;
};

static void open_queue(struct queue *queue)
{
    CHECK(pthread_mutex_init(&queue->lock, NULL) == 0 && pthread_cond_init(&queue->news, NULL) == 0);
    queue->first = NULL;
    queue->last = &queue->first;
    queue->closed = 0;
}

static void push(struct queue *queue, uint64_t name, uint64_t group, const uint32_t *slots, size_t count)
{
    struct work *work = malloc(sizeof *work + count * sizeof *slots);
    CHECK(work != NULL);
    work->next = NULL;
    work->name = name;
    work->group = group;
    work->count = count;
    if (count > 0)
        memcpy(work->slots, slots, count * sizeof *slots);
    pthread_mutex_lock(&queue->lock);
    *queue->last = work;
    queue->last = &work->next;
    pthread_cond_signal(&queue->news);
    pthread_mutex_unlock(&queue->lock);
}

/* The next work; NULL when the queue is closed. */
static struct work *pop(struct queue *queue)
{
    struct work *work;
    pthread_mutex_lock(&queue->lock);
    while (queue->first == NULL && !queue->closed)
        pthread_cond_wait(&queue->news, &queue->lock);
    work = queue->first;
    if (work != NULL) {
        queue->first = work->next;
        if (queue->first == NULL)
            queue->last = &queue->first;
    }
    pthread_mutex_unlock(&queue->lock);
    return work;
}

static void close_queue(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = 1;
    pthread_cond_broadcast(&queue->news);
    pthread_mutex_unlock(&queue->lock);
}

/* The value of an input, as it would come from a file. */
static double value(uint64_t input)
{
    return (double)(input * 2654435761u % 1000003u);
}

/* The inputs of an output point; their number. */
static size_t box(const struct application *app, uint64_t point, uint64_t *inputs)
{
    int64_t x = (int64_t)(point % app->width), y = (int64_t)(point / app->width), r = app->radius, dx, dy;
    size_t count = 0;
    for (dy = -r; dy <= r; dy++)
        for (dx = -r; dx <= r; dx++)
            if (x + dx >= 0 && x + dx < app->width && y + dy >= 0 && y + dy < app->height)
                inputs[count++] = (uint64_t)((y + dy) * app->width + x + dx);
    return count;
}

static void prepare(void *user, uint32_t slot, uint64_t data)
{
    struct application *app = user;
    /* What would be waited for here could come only after this call. */
    CHECK(umbra_stencil_alloc(app->stencil, 0, NULL, 0, 60000, NULL) == -UMBRA_EDEADLOCK);
    push(&app->loads, data, 0, &slot, 1);
}

static void ready(void *user, uint64_t point, uint64_t group, const uint32_t *slots, size_t count)
{
    struct application *app = user;
    push(&app->computations, point, group, slots, count);
}

static void *load(void *user)
{
    struct application *app = user;
    struct work *work;
    while ((work = pop(&app->loads)) != NULL) {
        app->slots[work->slots[0]] = value(work->name);
        must(umbra_stencil_prepared(app->stencil, work->name));
        must(umbra_stencil_deliver(app->stencil, &app->calls));
        free(work);
    }
    return NULL;
}

static void *compute(void *user)
{
    struct application *app = user;
    struct work *work;
    size_t i;
    while ((work = pop(&app->computations)) != NULL) {
        double sum = 0;
        for (i = 0; i < work->count; i++)
            sum += app->slots[work->slots[i]];
        app->sums[work->name] = sum;
        must(umbra_stencil_free_group(app->stencil, work->group));
        must(umbra_stencil_deliver(app->stencil, &app->calls));
        pthread_mutex_lock(&app->lock);
        app->done++;
        pthread_cond_signal(&app->freed);
        pthread_mutex_unlock(&app->lock);
        free(work);
    }
    return NULL;
}

static void wait_for(struct application *app, uint64_t done)
{
    pthread_mutex_lock(&app->lock);
    while (app->done < done)
        pthread_cond_wait(&app->freed, &app->lock);
    pthread_mutex_unlock(&app->lock);
}

int main(int argc, char **argv)
{
    struct application app;
    struct umbra_stencil_options options;
    struct umbra_cache_statistics told;
    uint64_t point, points, *inputs;
    uint32_t loaders, computers, i, slots;
    size_t count, at, largest;
    uint64_t group;
    int waits;
    pthread_t *threads;

    waits = argc == 8 && strcmp(argv[7], "wait") == 0;
    if (argc != 7 && !waits) {
        fprintf(stderr, "usage: %s WIDTH HEIGHT RADIUS SLOTS LOADERS COMPUTERS [wait]\n", argv[0]);
        return 2;
    }
    doing = "set up";
    memset(&app, 0, sizeof app);
    app.width = (uint32_t)strtoul(argv[1], NULL, 10);
    app.height = (uint32_t)strtoul(argv[2], NULL, 10);
    app.radius = (uint32_t)strtoul(argv[3], NULL, 10);
    slots = (uint32_t)strtoul(argv[4], NULL, 10);
    loaders = (uint32_t)strtoul(argv[5], NULL, 10);
    computers = (uint32_t)strtoul(argv[6], NULL, 10);
    points = (uint64_t)app.width * app.height;
    largest = (size_t)(2 * app.radius + 1) * (2 * app.radius + 1);
    CHECK(points > 0 && loaders > 0 && computers > 0);

    app.slots = calloc(slots, sizeof *app.slots);
    app.sums = calloc(points, sizeof *app.sums);
    inputs = malloc(largest * sizeof *inputs);
    threads = malloc((loaders + computers) * sizeof *threads);
    CHECK(app.slots != NULL && app.sums != NULL && inputs != NULL && threads != NULL);

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.slots = slots;
    options.inputs = points;
    options.counted = 1;
    /* Seven rows in line: so far the future is known. */
    options.groups = waits ? loaders + computers + 1 : 7 * app.width;
    options.largest_group = (uint32_t)largest;
    options.active = loaders + computers;
    options.horizon = 7 * (uint64_t)app.width;
    must(umbra_stencil_create(&options, &app.stencil));
    for (point = 0; point < points; point++)
        must(umbra_stencil_count(app.stencil, inputs, box(&app, point, inputs)));

    app.calls.size = sizeof app.calls;
    app.calls.user = &app;
    app.calls.prepare = prepare;
    app.calls.ready = ready;
    open_queue(&app.loads);
    open_queue(&app.computations);
    CHECK(pthread_mutex_init(&app.lock, NULL) == 0 && pthread_cond_init(&app.freed, NULL) == 0);
    doing = "the run";
    for (i = 0; i < loaders + computers; i++)
        CHECK(pthread_create(&threads[i], NULL, i < loaders ? load : compute, &app) == 0);

    for (point = 0; point < points; point++) {
        count = box(&app, point, inputs);
        if (waits) {
            must(umbra_stencil_alloc(app.stencil, point, inputs, count, 60000, &group));
            must(umbra_stencil_deliver(app.stencil, &app.calls));
            continue;
        }
        /* All groups are taken while fewer than this many have ended. */
        if (point >= options.groups)
            wait_for(&app, point - options.groups + 1);
        must(umbra_stencil_submit(app.stencil, point, inputs, count, NULL));
        must(umbra_stencil_deliver(app.stencil, &app.calls));
    }
    wait_for(&app, points);
    close_queue(&app.loads);
    close_queue(&app.computations);
    for (i = 0; i < loaders + computers; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);

    doing = "the sums";
    for (point = 0; point < points; point++) {
        double sum = 0;
        count = box(&app, point, inputs);
        for (at = 0; at < count; at++)
            sum += value(inputs[at]);
        CHECK(app.sums[point] == sum);
    }
    told.size = sizeof told;
    must(umbra_stencil_statistics(app.stencil, &told));
    must(umbra_stencil_destroy(app.stencil));
    CHECK(umbra_stencil_prepared(app.stencil, 0) == -UMBRA_ESTALE);
    printf("%llu points from %llu loads\n", (unsigned long long)points, (unsigned long long)told.loads);
    free(threads);
    free(inputs);
    free(app.sums);
    free(app.slots);
    return 0;
}
