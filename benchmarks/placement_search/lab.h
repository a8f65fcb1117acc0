/* What the compiled copy of the simulation is given. `compiled.py` fills the same structures. */

#define SITES 64
#define KINDS 8
#define TERMS 6  /* fit, pack, fragments, speed, price, reserved */
#define FACTORS 4 /* one, length, gang, full */
#define ORDERS 4 /* time, devices, memory, gang */

typedef struct {
    int sites, kinds, devices;
    int kind[SITES], size[SITES];
    double price[SITES], cheapest;
    double limit[KINDS]; /* memory a job may fill, MiB */
    double links[KINDS];
    int linked[KINDS];
} Lab;

typedef struct {
    int count, users;
    const double *submitted, *run_time, *predicted, *need;
    const int *devices, *hosts, *user, *kinds, *job_class;
    const double *speed;    /* by class and kind */
    const double *unlinked; /* by class */
} Jobs;

typedef struct {
    double fit, pack, fragments, speed, length, links, price, bulk;
    double fair_share, patience, front_after, front_times, front_least, front_areas;
    double by_time, by_devices; /* 1, or 0 where the order does not look at them */
    double place[TERMS][FACTORS], order[ORDERS];
    double place_clip, order_clip;
} Policy;

/* And what it keeps while it plays. */

#define DEVICES 64 /* of a host, at most */

typedef struct { double key; int job; } Waiting;
typedef struct { double when; int job; } End;
typedef struct { int kinds, devices, hosts, waiting, room; double refused; } Group;
typedef struct { double ended, begun; int devices; } Tally;
typedef struct { int held, kind, spare; double when; unsigned long sites; } Kept;

typedef struct {
    const Lab *lab;
    const Jobs *jobs;
    const Policy *policy;
    double now, first_use;
    int free[SITES], all_free;
    int *running, *position, running_count;
    double *since, *length, *gang;
    int (*taken)[SITES];
    Group *groups;
    int group_count, *group;
    Tally *users, all;
    double *over;
    Kept kept;
} Run;
