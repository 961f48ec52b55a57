/* What interfaces of two leases share: a model for spin. README.md says what it covers.
 *
 * The node has a route over two interfaces, each of an HCA that a job of its own takes; a third
 * job may take the first HCA again. The kernel drops the route when one of the interfaces leaves.
 * Whoever saw it must give it back, or see that another does. In the end both interfaces are home,
 * and so is the route.
 */
#ifndef KILLS
#define KILLS 1
#endif
#ifndef AGAIN
#define AGAIN 0       /* whether a third job takes the first HCA when it is free again */
#endif
#define JOBS (2 + AGAIN)
#define FREE 0        /* whose claim it is; else its job + 1 */
#define of(j) ((j) & 1)      /* the HCA that a job wants */
#define other(j) (1 - of(j))

bool home[2] = true;
bool route = true;
byte claim[2];        /* the node table */
bool owed[JOBS];      /* what the table owes to the interface of a job's lease */
typedef Lease {
	bool there;
	bool noted;       /* the settings are */
	bool had;         /* the route is in that note */
}
Lease lease[JOBS];
byte kills = KILLS, running = JOBS;
bool last;

#define K if :: kills > 0 && !last -> kills--; TELL("is killed\n"); goto dead :: true fi
#define TELL(what) printf("%d %d %d ", kind, j, 1); printf(what)

/* func: lib/lease/opened leasedTo
 * Whether another lease has the interface, or is about to note what it has. */
#ifdef WITHOUT_CLAIMED_IS_LEASED
#define leased(k) (claim[other(j)] == k + 1 && lease[k].noted)
#else
#define leased(k) (claim[other(j)] == k + 1)
#endif
#if AGAIN
#define isLeased (leased(0) && j != 0 || leased(1) && j != 1 || leased(2) && j != 2)
#else
#define isLeased leased(1 - j)
#endif

proctype Job(byte j)
{
	bool had, deferred;
	byte k, kind = 1;

	/* func: lib/lease taking.claimLocked */
	if
	:: atomic { claim[of(j)] == FREE -> TELL("claims its HCA\n"); claim[of(j)] = j + 1; lease[j].there = true; K }
	:: atomic { claim[of(j)] != FREE && j < 2 -> running--; goto over }
	:: atomic { j == 2 && running == 1 -> running--; goto over }
	fi;
	/* func: lib/lease taking.fill
	 * func: lib/lease/host Look.Read */
	atomic { if :: route -> TELL("reads the route\n") :: else -> TELL("reads that there is no route\n") fi; had = route };
	/* func: lib/lease/step Settings.Do */
	atomic { TELL("notes what it has read\n"); lease[j].noted = true; lease[j].had = had; had = false; K };
	/* func: lib/lease/step Link.Do */
	atomic { TELL("moves its interface into the job\n"); home[of(j)] = false; route = false; K };
	skip; /* its tasks run */

	/* func: lib/lease/opened Lease.Unwind
	 * func: lib/lease/step Link.Undo */
epilog:
	atomic {
		kind = 2;
		if
		:: lease[j].there
		:: else -> goto settle
		fi;
		if
		:: lease[j].noted -> TELL("brings its interface home\n"); home[of(j)] = true
		:: else -> goto free
		fi;
		K
	};
	/* func: lib/lease/step Settings.Verify
	 * func: lib/lease/step Settings.due */
	if
	:: lease[j].had
	:: else -> goto strike
	fi;
verify:
	deferred = isLeased;
	if
	:: deferred -> goto defer
	:: else
	fi;
	if
	:: route -> goto defer
	:: else
	fi;
	atomic {
		if :: home[other(j)] -> TELL("restores the route\n"); route = true :: else -> TELL("cannot restore the route\n") fi;
		K;
		/* Who claimed the other HCA before the route was there has not seen it. Who claims it from
		 * now on sees it. */
#ifndef WITHOUT_LOOK_AFTER_RESTORE
		goto verify
#endif
	};
defer:
	/* func: lib/lease/opened Lease.deferRestore
	 * func: lib/state/table Table.Defer */
#ifndef WITHOUT_DEFER_BEFORE_STRIKE
	atomic { if :: deferred -> TELL("writes into the table what is owed\n") :: else fi; owed[j] = owed[j] || deferred; K };
#endif
strike:
	atomic { TELL("strikes its notes\n"); lease[j].noted = false; lease[j].had = false; K };
#ifdef WITHOUT_DEFER_BEFORE_STRIKE
	atomic { if :: deferred -> TELL("writes into the table what is owed\n") :: else fi; owed[j] = owed[j] || deferred; K };
#endif
	/* func: lib/lease/step Claim.Undo */
free:
	atomic { if :: claim[of(j)] == j + 1 -> TELL("frees its claim\n"); claim[of(j)] = FREE :: else fi; K };
#ifdef WITHOUT_WHO_FREES_RESTORES
	atomic { lease[j].there = false; goto done };
#endif
	/* func: lib/lease/opened RestoreDeferred
	 * func: lib/state/table Table.Claimed
	 * func: lib/lease/opened memberAway */
settle:
	deferred = false;
	k = 0;
	do
	:: k < JOBS && !(owed[k] && claim[0] == FREE && claim[1] == FREE && home[0] && home[1]) -> k++
	:: k < JOBS && owed[k] && claim[0] == FREE && claim[1] == FREE && home[0] && home[1] ->
#ifdef WITHOUT_RESTORED_UNDER_NODE_LOCK
		atomic { TELL("restores what is owed\n"); route = true; K };
#endif
		/* Under the node lock, so that nobody can take one of them.
		 * func: lib/lease/opened endEntry */
		atomic {
			if
#ifdef WITHOUT_CLAIMED_STAYS_OWED
			:: home[0] && home[1] -> TELL("restores what is owed and drops it\n"); route = true; owed[k] = false
			:: else
#elif defined(WITHOUT_RESTORED_UNDER_NODE_LOCK)
			:: claim[0] == FREE && claim[1] == FREE -> TELL("drops what is owed\n"); owed[k] = false
			:: else
#else
			:: owed[k] && claim[0] == FREE && claim[1] == FREE && home[0] && home[1] -> TELL("restores what is owed and drops it\n"); route = true; owed[k] = false
			:: else
#endif
			fi;
			K
		};
		k++;
	:: k == JOBS -> break
	od;
	lease[j].there = false;
done:	atomic { running--; goto over };

	/* The epilog runs again. */
dead:
	atomic { deferred = false; had = false; k = 0; goto epilog };
over:
	skip
}

init
{
	byte k;

	atomic {
		do
		:: k < JOBS -> run Job(k); k++
		:: else -> break
		od
	};
	atomic { running == 0; assert(home[0] && home[1] && claim[0] == FREE && claim[1] == FREE); 
		k = 0;
		do
		:: k < JOBS -> assert(!owed[k]); k++
		:: else -> break
		od;
		assert(route)
	}
}
