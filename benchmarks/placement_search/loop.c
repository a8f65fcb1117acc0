/* The simulation of gpuconsole.placement.simulate once more, compiled, for searches that play tens
 * of thousands of windows: the order of submission, of time or of area with fair share, patience and
 * age, EASY reservation, the weighted score and its correction; hosts with equal devices, no failures,
 * no sharing. The engine in Python decides for real jobs and judges weights; a test holds both to the
 * same start of every job.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"

#define HALF_LIFE 604800.0

static double clipped(double value, double most) { return fmax(-most, fmin(most, value)); }

static double rounded(double value) { return nearbyint(value * 1e9) / 1e9; }

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static int by_key(const void *one, const void *other) {
    const Waiting *a = one, *b = other;
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key) : a->job - b->job;
}

/* --- fair share ------------------------------------------------------------------------------ */

static double growth(Run *run, double at) {
    if (run->first_use < 0) run->first_use = at;
    return exp2((at - run->first_use) / HALF_LIFE);
}

static double faded(const Tally *tally, double grown) {
    double current = fmax(0.0, tally->devices * grown - tally->begun);
    return (tally->ended + current) / grown * HALF_LIFE / log(2.0);
}

static void begin_use(Tally *tally, int devices, double grown) {
    tally->devices += devices;
    tally->begun += devices * grown;
}

static void end_use(Tally *tally, int devices, double began, double grown) {
    tally->devices -= devices;
    tally->begun = tally->devices ? tally->begun - devices * began : 0.0;
    tally->ended += devices * fmax(0.0, grown - began);
}

static void look_at_shares(Run *run) {
    double grown = growth(run, run->now), total = faded(&run->all, grown);
    int present = 0;
    for (int u = 0; u < run->jobs->users; u++) {
        run->over[u] = faded(&run->users[u], grown);
        present += run->users[u].devices || run->over[u] > 1.0;
    }
    for (int u = 0; u < run->jobs->users; u++) {
        int here = run->users[u].devices || run->over[u] > 1.0;
        double due = 1.0 / (present + !here);
        run->over[u] = (total > 1.0 ? run->over[u] / total : due) / due - 1.0;
    }
}

/* --- order ----------------------------------------------------------------------------------- */

static double key_of(const Run *run, int job) {
    const Jobs *jobs = run->jobs;
    const Policy *policy = run->policy;
    double seconds = fmax(1.0, jobs->predicted[job]), devices = jobs->devices[job];
    double waited = fmax(0.0, run->now - jobs->submitted[job]);
    double features[ORDERS] = {log(seconds / 3600.0) / 10.0, log2(devices),
                               fmin(1.0, jobs->need[job] / 81920.0), devices >= 4};
    if (!policy->by_time) return jobs->submitted[job];
    double front = fmax(policy->front_after, policy->front_times * jobs->predicted[job])
                   * fmax(policy->front_least, fmin(1.0, 1.0 + run->over[jobs->user[job]]));
    if (policy->front_after && waited >= front)
        /* before every size, by due time */
        return jobs->submitted[job] + front
               + policy->front_areas * jobs->predicted[job] * devices - 1e12;
    double moved = 0.0;
    for (int i = 0; i < ORDERS; i++) moved += policy->order[i] * features[i];
    return log(seconds) + policy->by_devices * log(devices)
           + policy->fair_share * run->over[jobs->user[job]]
           - policy->patience * log2(1.0 + waited / seconds) + clipped(moved, policy->order_clip);
}

/* --- places ---------------------------------------------------------------------------------- */

static double fragments(int free) {
    static const int sizes[] = {1, 2, 4, 8};
    static const double shares[] = {0.6, 0.1, 0.1, 0.2};
    double sum = 0.0;
    for (int i = 0; i < 4; i++) sum += free < sizes[i] ? shares[i] * free : 0.0;
    return sum;
}

static int is_kept(const Run *run, int site) {
    return run->kept.held && run->lab->kind[site] == run->kept.kind && run->kept.sites >> site & 1;
}

static int allowed(const Run *run, int job, int each, int site) {
    return !is_kept(run, site) || run->now + run->jobs->predicted[job] <= run->kept.when
           || each <= run->kept.spare;
}

static double score(const Run *run, int job, int each, int site, double best) {
    const Lab *lab = run->lab;
    const Policy *policy = run->policy;
    int kind = lab->kind[site], free = run->free[site];
    double added = fragments(free - each) - fragments(free);
    double length = run->length[job], gang = run->gang[job];
    double terms[TERMS] = {
        fmin(1.0, run->jobs->need[job] / lab->limit[kind]),
        1.0 - (double)(free - each) / lab->size[site],
        fmax(0.0, fmin(1.0, 0.5 - added / 8.0)),
        fmin(1.0, run->jobs->speed[run->jobs->job_class[job] * KINDS + kind] / best),
        lab->price[site] <= lab->cheapest ? 1.0 : lab->cheapest / lab->price[site],
        is_kept(run, site),
    };
    double factors[FACTORS] = {1.0, length, gang, 1.0 - (double)run->all_free / lab->devices};
    double total = policy->fit * terms[0] + policy->pack * terms[1] + policy->fragments * terms[2]
                   + (policy->speed + policy->length * length) * terms[3]
                   + (policy->price + policy->bulk * gang) * terms[4];
    double correction = 0.0;
    for (int t = 0; t < TERMS; t++)
        for (int f = 0; f < FACTORS; f++) correction += policy->place[t][f] * terms[t] * factors[f];
    return rounded(total + clipped(correction, policy->place_clip));
}

/* Chooses the best sites of one kind; returns their mean score, or -INFINITY without enough. */
static double best_of(const Run *run, const double *scores, int kind, int hosts, int *chosen) {
    unsigned long used = 0;
    double sum = 0.0;
    for (int n = 0; n < hosts; n++) {
        int best = -1;
        for (int s = 0; s < run->lab->sites; s++)
            if ((kind < 0 || run->lab->kind[s] == kind) && !(used >> s & 1)
                && scores[s] > (best < 0 ? -INFINITY : scores[best]))
                best = s;
        if (best < 0) return -INFINITY;
        used |= 1UL << best;
        chosen[n] = best;
        sum += scores[best];
    }
    return sum / hosts;
}

static int place(const Run *run, int job, int *chosen) {
    const Lab *lab = run->lab;
    const Jobs *jobs = run->jobs;
    double best = 0.0;
    for (int k = 0; k < lab->kinds; k++)
        if (jobs->kinds[job] >> k & 1)
            best = fmax(best, jobs->speed[jobs->job_class[job] * KINDS + k]);
    for (int hosts = 1; hosts <= jobs->hosts[job]; hosts++) {
        if (jobs->devices[job] % hosts) continue;
        int each = jobs->devices[job] / hosts, found = 0, first = 0;
        double scores[SITES], top = -INFINITY;
        for (int s = 0; s < lab->sites; s++) {
            scores[s] = -INFINITY;
            if (!(jobs->kinds[job] >> lab->kind[s] & 1) || run->free[s] < each) continue;
            if (!allowed(run, job, each, s)) continue;
            double links = each > 1 ? run->policy->links * lab->links[lab->kind[s]] : 0.0;
            scores[s] = rounded(score(run, job, each, s, best) + links);
        }
        if (hosts == 1) {
            if (best_of(run, scores, -1, 1, chosen) > -INFINITY) return 1;
            continue;
        }
        for (int k = 0; k < lab->kinds; k++) {
            int sites[SITES], lowest = SITES;
            double mean = best_of(run, scores, k, hosts, sites);
            if (mean == -INFINITY) continue;
            for (int i = 0; i < hosts; i++) lowest = sites[i] < lowest ? sites[i] : lowest;
            if (mean > top || (mean == top && lowest < first)) {
                top = mean, first = lowest, found = 1;
                memcpy(chosen, sites, sizeof(int) * hosts);
            }
        }
        if (found) return hosts;
    }
    return 0;
}

/* --- reservation ----------------------------------------------------------------------------- */

static double expected_end(const Run *run, int job) {
    double end = run->since[job] + run->jobs->predicted[job];
    return end > run->now ? end : run->now + fmax(60.0, run->now - run->since[job]);
}

static void reserve(Run *run, int job) {
    const Lab *lab = run->lab;
    const Jobs *jobs = run->jobs;
    static double moments[SITES][DEVICES];
    int count[SITES];
    double soonest = INFINITY;
    for (int s = 0; s < lab->sites; s++) {
        int suits = jobs->kinds[job] >> lab->kind[s] & 1;
        count[s] = 0;
        for (int i = 0; suits && i < run->free[s]; i++) moments[s][count[s]++] = run->now;
        for (int r = 0; suits && r < run->running_count; r++) {
            int other = run->running[r];
            for (int i = 0; i < run->taken[other][s]; i++)
                moments[s][count[s]++] = expected_end(run, other);
        }
        qsort(moments[s], count[s], sizeof(double), by_size);
    }
    for (int hosts = 1; hosts <= jobs->hosts[job]; hosts++) {
        if (jobs->devices[job] % hosts) continue;
        int each = jobs->devices[job] / hosts;
        for (int k = 0; k < lab->kinds; k++) {
            double negated[SITES];
            int sites[SITES];
            for (int s = 0; s < lab->sites; s++)
                negated[s] = count[s] >= each ? -moments[s][each - 1] : -INFINITY;
            if (best_of(run, negated, k, hosts, sites) == -INFINITY) continue;
            double when = -negated[sites[hosts - 1]];
            if (when >= soonest) continue;
            soonest = when;
            run->kept = (Kept){1, k, DEVICES, when, 0};
            for (int i = 0; i < hosts; i++) {
                int spare = -each;
                for (int m = 0; m < count[sites[i]]; m++) spare += moments[sites[i]][m] <= when;
                run->kept.sites |= 1UL << sites[i];
                run->kept.spare = spare < run->kept.spare ? spare : run->kept.spare;
            }
            run->kept.spare = run->kept.spare < 0 ? 0 : run->kept.spare;
        }
    }
}

/* --- ends ------------------------------------------------------------------------------------ */

static void push(End *heap, int *count, End end) {
    int i = (*count)++;
    for (; i && heap[(i - 1) / 2].when > end.when; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = end;
}

static End pop(End *heap, int *count) {
    End first = heap[0], last = heap[--*count];
    int i = 0;
    for (int child = 1; child < *count; child = 2 * i + 1) {
        child += child + 1 < *count && heap[child + 1].when < heap[child].when;
        if (heap[child].when >= last.when) break;
        heap[i] = heap[child], i = child;
    }
    heap[i] = last;
    return first;
}

static double begin(Run *run, int job, const int *sites, int hosts) {
    const Lab *lab = run->lab;
    const Jobs *jobs = run->jobs;
    int each = jobs->devices[job] / hosts, job_class = jobs->job_class[job], kept = 0;
    double speed = INFINITY, grown = growth(run, run->now);
    for (int i = 0; i < hosts; i++) {
        int site = sites[i], kind = lab->kind[site];
        double own = jobs->speed[job_class * KINDS + kind];
        if (jobs->devices[job] > 1 && !lab->linked[kind]) own *= jobs->unlinked[job_class];
        speed = fmin(speed, own);
        kept |= is_kept(run, site);
        run->taken[job][site] = each;
        run->free[site] -= each, run->all_free -= each;
    }
    if (kept && run->now + jobs->predicted[job] > run->kept.when) run->kept.spare -= each;
    run->since[job] = run->now;
    run->position[job] = run->running_count;
    run->running[run->running_count++] = job;
    begin_use(&run->users[jobs->user[job]], jobs->devices[job], grown);
    begin_use(&run->all, jobs->devices[job], grown);
    return run->now + jobs->run_time[job] / (speed * (hosts > 1 ? 0.8 : 1.0));
}

static void finish(Run *run, int job) {
    int devices = run->jobs->devices[job];
    double began = growth(run, run->since[job]), grown = growth(run, run->now);
    for (int s = 0; s < run->lab->sites; s++)
        run->free[s] += run->taken[job][s], run->all_free += run->taken[job][s];
    int last = run->running[--run->running_count], place = run->position[job];
    run->running[place] = last, run->position[last] = place;
    end_use(&run->users[run->jobs->user[job]], devices, began, grown);
    end_use(&run->all, devices, began, grown);
}

/* --- the line -------------------------------------------------------------------------------- */

static int look(Run *run) {
    int any = 0;
    for (int g = 0; g < run->group_count; g++) {
        Group *group = &run->groups[g];
        group->room = 0;
        for (int k = 0; group->waiting && k < run->lab->kinds; k++) {
            int able = 0;
            for (int s = 0; s < run->lab->sites; s++)
                able += run->lab->kind[s] == k && run->free[s] >= group->devices / group->hosts;
            group->room |= group->kinds >> k & 1 && able >= group->hosts;
        }
        any |= group->room;
    }
    return any;
}

static int group_of(Run *run, int job) {
    const Jobs *jobs = run->jobs;
    int g = 0;
    while (g < run->group_count
           && (run->groups[g].kinds != jobs->kinds[job] || run->groups[g].hosts != jobs->hosts[job]
               || run->groups[g].devices != jobs->devices[job]))
        g++;
    if (g == run->group_count)
        run->groups[run->group_count++] =
            (Group){jobs->kinds[job], jobs->devices[job], jobs->hosts[job], 0, 0, 0.0};
    return g;
}

static int pass(Run *run, Waiting *line, int count, double *start, End *ends, int *end_count) {
    int left = 0, i = 0;
    for (int g = 0; g < run->group_count; g++) run->groups[g].refused = INFINITY;
    for (run->kept.held = 0; i < count && (run->all_free || !run->kept.held); i++) {
        int job = line[i].job, sites[SITES];
        Group *group = &run->groups[run->group[job]];
        double seconds = run->jobs->predicted[job];
        int asked = group->room && !(run->kept.held && seconds >= group->refused);
        int hosts = asked ? place(run, job, sites) : 0;
        if (hosts) {
            start[job] = run->now;
            push(ends, end_count, (End){begin(run, job, sites, hosts), job});
            group->waiting--;
            look(run);
            continue;
        }
        group->refused = fmin(group->refused, seconds);
        if (!run->kept.held) reserve(run, job);
        line[left++] = line[i];
    }
    memmove(line + left, line + i, sizeof(Waiting) * (count - i));
    return left + count - i;
}

static void prepare(Run *run) {
    const Jobs *jobs = run->jobs;
    int count = jobs->count;
    run->running = calloc(count, sizeof(int)), run->position = calloc(count, sizeof(int));
    run->since = calloc(count, sizeof(double)), run->length = calloc(count, sizeof(double));
    run->gang = calloc(count, sizeof(double)), run->taken = calloc(count, sizeof(int[SITES]));
    run->groups = calloc(count, sizeof(Group)), run->group = calloc(count, sizeof(int));
    run->users = calloc(jobs->users, sizeof(Tally)), run->over = calloc(jobs->users, sizeof(double));
    for (int j = 0; j < count; j++) {
        double minutes = jobs->predicted[j] / 60.0;
        run->length[j] = minutes <= 1.0 ? 0.0 : fmin(1.0, log10(minutes) / log10(2880.0));
        run->gang[j] = fmin(1.0, log2(jobs->devices[j]) / 3.0);
        run->group[j] = group_of(run, j);
    }
    for (int s = 0; s < run->lab->sites; s++) run->free[s] = run->lab->size[s];
    run->all_free = run->lab->devices;
}

static void forget(Run *run) {
    free(run->running), free(run->position), free(run->since), free(run->length), free(run->gang);
    free(run->taken), free(run->groups), free(run->group), free(run->users), free(run->over);
}

/* Plays all jobs; writes when each started and ended, and returns how many ended. */
int simulate(const Lab *lab, const Jobs *jobs, const Policy *policy, double *start, double *end) {
    Run run = {.lab = lab, .jobs = jobs, .policy = policy, .first_use = -1.0};
    Waiting *line = calloc(jobs->count, sizeof(Waiting));
    End *ends = calloc(jobs->count, sizeof(End));
    int waiting = 0, end_count = 0, next = 0, ended = 0;
    double sorted_at = 0.0;
    prepare(&run);
    while (ended < jobs->count && (next < jobs->count || end_count)) {
        if (end_count && (next == jobs->count || ends[0].when <= jobs->submitted[next])) {
            End first = pop(ends, &end_count);
            run.now = end[first.job] = first.when;
            finish(&run, first.job);
            ended++;
        } else {
            run.now = jobs->submitted[next];
            look_at_shares(&run);
            Waiting joined = {key_of(&run, next), next};
            int i = waiting++;
            for (; i && line[i - 1].key > joined.key; i--) line[i] = line[i - 1];
            line[i] = joined;
            run.groups[run.group[next++]].waiting++;
        }
        if (end_count && ends[0].when == run.now) continue;
        if (next < jobs->count && jobs->submitted[next] == run.now) continue;
        if (!waiting || !run.all_free || !look(&run)) continue;
        if (run.now - sorted_at >= 2.0 * waiting) { /* as often as `simulate.line` */
            sorted_at = run.now;
            look_at_shares(&run);
            for (int i = 0; i < waiting; i++) line[i].key = key_of(&run, line[i].job);
            qsort(line, waiting, sizeof(Waiting), by_key);
        }
        waiting = pass(&run, line, waiting, start, ends, &end_count);
    }
    forget(&run);
    free(line), free(ends);
    return ended;
}
