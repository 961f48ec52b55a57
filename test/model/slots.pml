/* Slots of one HCA, which several jobs have at once: a model for spin. README.md says what it covers.
 *
 * Who could open the HCA's device nodes is recorded before the first job with a slot restricts them, and
 * they are opened when the last of these jobs has freed its claim: first in, last out. Job 2 has the
 * HCA as a whole, if no slot is taken: the site may change that while jobs run. In the end no job
 * has anything, and who could open the nodes can.
 */
#ifndef KILLS
#define KILLS 1
#endif
#ifndef FAILS
#define FAILS 0       /* undos of a slot's interface that fail */
#endif
#ifndef REMOVALS
#define REMOVALS 0    /* leases whose journal is damaged, which a person then releases */
#endif
#ifndef JOBS
#define JOBS 3
#endif
#define SLOTS 2
#define FREE 0        /* whose claim it is; else its job + 1 */
#define UNKNOWN 0     /* of nodes, what an entry says of them */
#define OPEN 1
#define RESTRICTED 2
#define wantsAll (j == 2)

byte nodes = OPEN;    /* who may open the HCA's device nodes on the node */
byte claim[SLOTS];    /* the node table: slots */
byte all;             /* the node table: the HCA as a whole */
bool quarantined[SLOTS];
byte shared;          /* the node table: who could open the nodes before the first slot */
typedef Lease {
	bool there;
	byte slot;        /* what the entry of the claim has: the slot + 1, or SLOTS + 1 for the whole */
	byte had;         /* the entry about access, of a job with the whole */
	bool child;       /* the slot's interface is in the job's namespace */
	bool aside;       /* the lease was damaged, and its claim is quarantined */
	bool restricted;      /* the job has restricted the nodes and not yet freed its claim */
}
Lease lease[JOBS];
byte kills = KILLS, fails = FAILS, removals = REMOVALS, running = JOBS;
bool last;

#define K if :: kills > 0 && !last -> kills--; TELL("is killed\n"); goto dead :: true fi
#define TELL(what) printf("%d %d %d ", kind, j, 1); printf(what)
#define noSlot(but) ((claim[0] == FREE || but == 1) && (claim[1] == FREE || but == 2))
/* What holds in each state: an HCA is whole or slots, and who has it is alone with it. */
#define holds() assert(all == FREE || noSlot(0)); \
	assert(nodes == RESTRICTED || !(lease[0].restricted || lease[1].restricted || (JOBS > 2 && lease[JOBS - 1].restricted)))

/* func: lib/lease/step Reopen
 * func: lib/state/table Table.Unshared
 * Under the node lock. What it changes of the table is in memory until that is written. */
#define reopen(but) if :: shared != UNKNOWN && noSlot(but) -> TELL("opens the nodes\n"); nodes = shared :: else fi
#define dropSharedFor(but) if :: shared != UNKNOWN && noSlot(but) -> shared = UNKNOWN :: else fi

proctype Job(byte j)
{
	byte mine, had, seen, kind = 1;
	bool away;

	/* func: lib/lease taking.claimLocked
	 * func: lib/lease/host Host.Pick
	 * func: lib/lease/host Host.share
	 * func: lib/base/node ID.Overlaps */
	atomic {
		if
		:: all != FREE || (wantsAll && !noSlot(0)) || (claim[0] != FREE && claim[1] != FREE) -> running--; goto over
		:: else
		fi;
		if
		:: wantsAll -> mine = SLOTS + 1; TELL("picks the HCA\n")
		:: !wantsAll && claim[0] == FREE -> mine = 1; TELL("picks slot 0\n")
		:: !wantsAll && claim[0] != FREE -> mine = 2; TELL("picks slot 1\n")
		fi;
		lease[j].there = true;
		had = shared;
#ifndef WITHOUT_FIRST_IN_LAST_OUT
		if :: !wantsAll && shared == UNKNOWN -> had = nodes :: else fi;
#endif
		lease[j].slot = mine;
		K;
#ifdef WITHOUT_CLAIM_BEFORE_ACCESS
		if :: wantsAll :: else -> shared = had; K fi;
#endif
		if
		:: wantsAll -> all = j + 1
		:: else -> claim[mine - 1] = j + 1
		fi;
		TELL("writes its claim into the table\n");
		K;
#ifndef WITHOUT_CLAIM_BEFORE_ACCESS
		if :: wantsAll :: else -> shared = had fi;
#endif
		had = UNKNOWN;
		K;
		holds()
	};
	/* func: lib/lease/host Look.readAccess
	 * func: lib/lease/step Access.Do */
	atomic {
#ifndef WITHOUT_FIRST_IN_LAST_OUT
		if :: wantsAll -> lease[j].had = nodes :: else fi;
#else
		lease[j].had = nodes;
#endif
		K
	};
	atomic { TELL("restricts the nodes\n"); nodes = RESTRICTED; lease[j].restricted = true; K };
	/* func: lib/lease/step Child.Do */
	atomic { lease[j].child = !wantsAll; K };
	skip; /* its tasks run */

	/* func: lib/lease Lease.Rollback */
epilog:
	atomic {
		kind = 2;
		if
		:: !lease[j].there -> goto done
		:: lease[j].there -> TELL("begins to roll back\n"); away = false
		:: lease[j].there && removals > 0 && !last && lease[j].slot > 0 && lease[j].slot <= SLOTS -> removals--; goto damage
		fi
	};
	/* func: lib/lease/step Child.Undo */
	atomic {
		if
		:: lease[j].child && fails > 0 && !last -> fails--; TELL("cannot remove the interface\n"); away = true
		:: lease[j].child -> lease[j].child = false
		:: !lease[j].child
		fi;
		K
	};
	/* func: lib/lease/step Access.Undo
	 * Of a slot it restores nothing. */
	atomic {
		if
		:: lease[j].had != UNKNOWN -> TELL("opens the nodes that it has restricted\n"); lease[j].restricted = false; nodes = lease[j].had; lease[j].had = UNKNOWN
		:: else
		fi;
		K
	};
	/* func: lib/lease/step Claim.Undo
	 * func: lib/state/table Table.Release */
	atomic {
		mine = lease[j].slot;
		if
		:: away -> d_step { if :: claim[mine - 1] == j + 1 -> TELL("quarantines its slot\n"); quarantined[mine - 1] = true :: else fi }; goto again
		:: else
		fi;
		if
		:: mine == 0 -> goto remove
		:: mine == SLOTS + 1 -> reopen(0)
		:: mine > 0 && mine <= SLOTS && claim[mine - 1] == j + 1 -> lease[j].restricted = false;
#ifdef WITHOUT_OPENED_BEFORE_WRITTEN
			TELL("frees its slot\n"); claim[mine - 1] = FREE; quarantined[mine - 1] = false;
			seen = shared;
			dropSharedFor(0);
			K;
			if :: seen != UNKNOWN && noSlot(0) -> TELL("opens the nodes\n"); nodes = seen :: else fi
#elif !defined(WITHOUT_OPENED_UNDER_NODE_LOCK)
			reopen(mine)
#endif
		:: mine > 0 && mine <= SLOTS && claim[mine - 1] != j + 1 -> reopen(0)
		fi;
		K;
#ifdef WITHOUT_OPENED_UNDER_NODE_LOCK
		seen = shared;
#endif
#ifndef WITHOUT_CLAIM_BEFORE_ACCESS
		if
		:: mine > 0 && mine <= SLOTS && claim[mine - 1] == j + 1 -> dropSharedFor(mine)
		:: else -> dropSharedFor(0)
		fi;
		K;
#endif
		if
		:: mine == SLOTS + 1 && all == j + 1 -> TELL("frees the HCA\n"); all = FREE
		:: mine > 0 && mine <= SLOTS && claim[mine - 1] == j + 1 -> TELL("frees its slot\n"); quarantined[mine - 1] = false; claim[mine - 1] = FREE
		:: else
		fi;
		K;
#ifdef WITHOUT_OPENED_UNDER_NODE_LOCK
		if :: seen != UNKNOWN && noSlot(0) :: else -> seen = UNKNOWN fi;
#endif
		dropSharedFor(0);
		holds();
		K;
		lease[j].slot = 0;
		K
	};
#ifdef WITHOUT_OPENED_UNDER_NODE_LOCK
	atomic { if :: seen != UNKNOWN -> TELL("opens the nodes\n"); nodes = seen; seen = UNKNOWN; holds() :: else fi };
#endif
	/* func: lib/state Lease.Remove */
remove:
	atomic { lease[j].there = false; goto done };

	/* func: lib/lease Lease.setAside
	 * func: lib/lease damage.quarantines */
damage:
	atomic {
		TELL("sets its damaged lease aside\n");
		d_step {
			mine = lease[j].slot;
			if :: claim[mine - 1] == j + 1 -> quarantined[mine - 1] = true; lease[j].aside = true :: else fi;
			lease[j].restricted = false; lease[j].child = false; lease[j].there = false;
			if :: lease[j].aside :: else -> lease[j].slot = 0 fi
		}
	};
	if
	:: !lease[j].aside -> goto done
	:: lease[j].aside
	fi;
	/* func: lib/lease Host.freeReturned
	 * The person comes at any time, and removes the journal that was kept. */
	atomic {
		kind = 4;
		if
		:: claim[mine - 1] == j + 1 ->
#ifndef WITHOUT_RELEASE_OPENS
			reopen(mine);
#endif
			d_step {
				TELL("frees its slot\n"); claim[mine - 1] = FREE; quarantined[mine - 1] = false;
#ifndef WITHOUT_RELEASE_OPENS
				dropSharedFor(0)
#endif
			}
		:: else
		fi;
		lease[j].aside = false; lease[j].slot = 0;
		holds();
		goto done
	};

	/* The epilog runs again. */
dead:
	atomic { mine = 0; had = UNKNOWN; seen = UNKNOWN; away = false; goto epilog };
again:
	atomic { mine = 0; away = false; goto epilog };
done:	atomic { mine = 0; running--; goto over };
over:
	skip
}

init
{
	byte k, j, kind = 2;

	atomic {
		do
		:: k < JOBS -> run Job(k); k++
		:: else -> break
		od
	};
	atomic {
		running == 0;
		last = true;
		assert(claim[0] == FREE && claim[1] == FREE && all == FREE && shared == UNKNOWN && nodes == OPEN)
	}
}
