/* A model of how leases are taken and given back, for spin.
 *
 * Two jobs run their prologs and epilogs on a node. A sweep runs beside them, and one job is
 * requeued. Each program can be killed between any two of its steps, and a move of an RDMA device
 * can outlive the program that began it. In the end everybody is left alone and an epilog of each
 * job runs once more; then all HCAs must be home and free.
 *
 * A line with "func:" names a function of the programs that the code after it stands for; a test
 * fails if one of them is gone. Each LAW_... that is defined leaves one law out: spin must find a
 * fault then, or the law would not be needed.
 *
 *     spin -a -DRUNS=1 lease.pml && gcc -O2 -DSAFETY -DCOLLAPSE -DNOREDUCE -DVECTORSZ=2048 -o pan pan.c && ./pan -m400000 -w26
 *
 * Not in the model: what interfaces have, and reboots. All state lives in /run, which ends with
 * the boot that it is about: a node after a reboot is the node of init.
 */
#define JOBS 2
#ifndef HCAS
#define HCAS 1
#endif
#ifndef WANTS
#define WANTS 1     /* HCAs that job 0 asks for */
#endif
#ifndef RUNS
#define RUNS 2      /* of job 0 */
#endif
#ifndef OTHERS
#define OTHERS 1    /* runs of job 1, which asks for one HCA */
#endif
#ifndef SWEEPS
#define SWEEPS 1
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef HANGS
#define HANGS 1     /* moves that are given up while they are under way */
#endif
#ifndef UNWRITTEN
#define UNWRITTEN 1 /* strikes that a full /run keeps from the journal */
#endif

#define PROLOG 1
#define EPILOG 2
#define SWEEP 3

#define HOME 0      /* where an HCA is; else its job + 1, whose namespace has it */
#define LOST 9
#define FREE 0      /* whose claim it is; else its job + 1 */
#define only(h) (1 << (h))
#define ALL (only(HCAS) - 1)

/* What the kernel has. */
byte where[HCAS];
bool namespace[JOBS];
bool moving[HCAS];  /* a mover of it is in the kernel, and holds the HCA's lock */

/* The node table: lib/table. Who holds its lock does all that it does with it at one time. */
byte claim[HCAS];
byte claimRound[HCAS];
bool quarantined[HCAS];

/* Who holds an HCA's lock himself: the process's number + 1. */
byte hcaLock[HCAS];

/* jobs/JOBID. */
typedef Lease {
	byte lock;        /* who holds it */
	bool there;
	byte round;       /* which run of the job it is */
	bool complete;    /* env is there */
	bool marked;      /* the job had an extern step */
	byte claimed;     /* HCAs in the note of the claim */
	byte moved;       /* HCAs whose moves are noted */
	byte struck;      /* and those of which nothing is left to be undone */
}
Lease lease[JOBS];

/* What Slurm has. */
bool step[JOBS];    /* the job's tasks run */
byte result[JOBS];  /* of the job's prolog: 0 it runs, 1 done, 2 failed or killed */
byte running;

byte kills = KILLS, hangs = HANGS, unwritten = UNWRITTEN;
bool last;          /* nobody is killed any more, and nobody gives up */

/* Here the program may be killed. */
#define K if :: kills > 0 && !last -> kills--; goto dead :: skip fi

/* At every step: nobody has what is another's, no HCA is where nobody looks for it, and no claim
 * is free while a mover can act. */
inline holds()
{
	i = 0;
	do
	:: i < HCAS ->
		assert(where[i] != LOST);
		assert(where[i] == HOME || (claim[i] == where[i] && namespace[where[i] - 1]));
		assert(!moving[i] || claim[i] != FREE);
		i++
	:: else -> break
	od;
	i = 0
}

/* func: lib/mover Start */
proctype Mover(byte h; byte to)
{
	byte i;

	d_step {
		if
		:: to != HOME && !namespace[to - 1] -> where[h] = LOST
		:: else -> where[h] = to
		fi;
		moving[h] = false;
		holds()
	}
}

#ifdef LAW_MOVER_HOLDS_LOCK
#define isLocked(h) (hcaLock[h] != 0)
#else
#define isLocked(h) (hcaLock[h] != 0 || moving[h])
#endif

/* move has the kernel move an HCA, whose lock the program has, and waits for the end of it or
 * gives up. */
inline move(h, to)
{
	atomic {
		moving[h] = true;
		run Mover(h, to);
		K
	};
	if
	:: atomic { !moving[h] -> hung = false; hcaLock[h] = 0 }
	:: atomic { moving[h] && hangs > 0 && !last -> hangs--; hung = true; hcaLock[h] = 0 }
	fi
}

#define noted(h) ((lease[j].moved & only(h)) && !(lease[j].struck & only(h)) && !(others & only(h)))

proctype Program(byte kind; byte j; byte r; byte wants)
{
	byte h, i, away, others, unstruck, mine, seenRound;
	bool hung, failing, seenMark, seenStep;

	/* func: lib/lease Host.underLock
	 * func: lib/lease Host.leaseToSweep */
#ifndef LAW_JOB_LOCK
	if
	:: atomic { lease[j].lock == 0 -> lease[j].lock = _pid + 1 }
	:: atomic { kind == SWEEP && lease[j].lock != 0 -> goto ended }
	fi;
#endif
	if
	:: kind == PROLOG -> goto prolog
	:: kind == EPILOG -> goto epilog
	:: else
	fi;

	/* func: lib/lease Host.sweep
	 * func: lib/lease signs.judge
	 * The processes are looked at without the job's lock. */
	atomic {
		if
		:: !lease[j].there -> goto abandoned
		:: else
		fi;
		seenRound = lease[j].round;
		seenMark = lease[j].marked;
		lease[j].lock = 0
	};
	seenStep = step[j];
	atomic {
#ifndef LAW_JOB_LOCK
		if
		:: lease[j].lock == 0 -> lease[j].lock = _pid + 1
		:: else -> goto ended
		fi;
#endif
		if
		:: !lease[j].there || lease[j].round != seenRound || lease[j].marked != seenMark -> goto unlock
#ifndef LAW_SWEEP_SPARES_THE_LIVING
		:: else -> if
			:: seenStep || (!seenMark && lease[j].complete) -> goto unlock /* it lives, or may be about to start */
			:: else
			fi
#else
		:: else
#endif
		fi
	};
	assert(!step[j]);
	goto unwind;

	/* func: lib/lease Host.Restore */
epilog:
	if
	:: !lease[j].there -> goto abandoned
	:: lease[j].there && lease[j].round > r -> goto unlock
	:: else -> goto unwind
	fi;

	/* func: lib/repair Removed
	 * func: lib/repair distrust */
abandoned:
	atomic {
		h = 0;
		do
		:: h < HCAS -> if :: claim[h] == j + 1 -> quarantined[h] = true :: else fi; h++
		:: else -> break
		od;
		h = 0
	};
	if
	:: kind == PROLOG -> goto create
	:: else -> goto unlock
	fi;

	/* func: lib/lease Host.Take
	 * func: lib/lease Host.endEarlier */
prolog:
	if
	:: !lease[j].there -> goto abandoned
	:: lease[j].there && lease[j].round == r && lease[j].complete -> result[j] = 1; goto unlock
	:: else -> goto unwind
	fi;

	/* func: lib/lease Host.take
	 * func: lib/opened Create */
create:
	atomic {
		lease[j].there = true; lease[j].round = r;
		failing = true;
		K
	};
	/* func: lib/step Claim.Do
	 * func: lib/host Host.Pick */
	atomic {
		h = 0;
		do
		:: h < HCAS && wants > 0 && claim[h] == FREE -> mine = mine | only(h); wants--; h++
		:: h < HCAS && (wants == 0 || claim[h] != FREE) -> h++
		:: h == HCAS -> break
		od;
		h = 0;
		if
		:: wants > 0 -> goto unwind /* too few are free */
		:: else
		fi
#ifdef LAW_NODE_LOCK
	};
	atomic {
#else
		;
#endif
#ifndef LAW_CLAIM_IS_NOTED_FIRST
		lease[j].claimed = mine;
		K;
#endif
		do
		:: h < HCAS -> if :: mine & only(h) -> claim[h] = j + 1; claimRound[h] = r; quarantined[h] = false :: else fi; h++
		:: else -> break
		od;
		h = 0;
		K;
#ifdef LAW_CLAIM_IS_NOTED_FIRST
		lease[j].claimed = mine;
#endif
		holds();
		/* func: lib/step Namespace.Do */
		namespace[j] = true;
		K
	};
	/* func: lib/opened Lease.CarryOut
	 * func: lib/step RDMA.Start */
	do
	:: h < HCAS && !(mine & only(h)) -> h++
	:: h < HCAS && (mine & only(h)) ->
		atomic {
#ifndef LAW_NOTE_BEFORE_DEED
			lease[j].moved = lease[j].moved | only(h);
			K;
#endif
			if
			:: !isLocked(h) -> hcaLock[h] = _pid + 1
			:: else -> goto unwind /* an earlier move of it has not ended */
			fi;
			if
			:: where[h] != HOME -> hcaLock[h] = 0; goto unwind
			:: else
			fi
		};
		move(h, j + 1);
#ifdef LAW_NOTE_BEFORE_DEED
		atomic { K; lease[j].moved = lease[j].moved | only(h) };
#endif
		if
		:: hung -> goto unwind
		:: else -> h++
		fi
	:: h == HCAS -> break
	od;
	/* func: lib/environment Lease.Write */
	atomic { K; lease[j].complete = true; failing = false; result[j] = 1; goto unlock };

	/* func: lib/opened Lease.Unwind
	 * func: lib/opened Lease.bringHome
	 * func: lib/opened Lease.peers */
unwind:
	atomic {
		lease[j].complete = false;
		K;
		away = 0; others = 0; h = 0;
#ifndef LAW_OTHERS_ARE_SPARED
		do
		:: h < HCAS ->
			if
			:: claim[h] != FREE && !(claim[h] == j + 1 && claimRound[h] == lease[j].round) && where[h] != j + 1 -> others = others | only(h)
			:: else
			fi;
			h++
		:: else -> break
		od;
		h = 0
#endif
	};
	do
	:: h < HCAS && !noted(h) -> h++
	:: h < HCAS && noted(h) ->
		/* func: lib/step RDMA.StartUndo
		 * func: lib/step RDMA.lock */
		atomic {
#ifdef LAW_STRIKE_AFTER_UNDO
			lease[j].struck = lease[j].struck | only(h);
			K;
#endif
			if
			:: !isLocked(h) -> hcaLock[h] = _pid + 1
			:: isLocked(h) && !last -> away = away | only(h); h++; goto next
			fi;
#ifdef LAW_ASK_THE_WORLD
			/* The record says that what did not count was not moved. */
			if
			:: failing -> hcaLock[h] = 0; h++; goto next
			:: else
			fi
#else
			if
			:: where[h] == HOME -> hcaLock[h] = 0; h++; goto next
			:: else
			fi
#endif
		};
		move(h, HOME);
		if
		:: hung -> away = away | only(h)
		:: else
		fi;
		h++;
next:		skip
	:: h == HCAS -> break
	od;
	/* func: lib/opened Lease.markUndone
	 * func: lib/opened Lease.shorten
	 * func: lib/opened Lease.quarantineNotStruck */
	atomic {
		h = 0; unstruck = 0;
		do
		:: h < HCAS && (away & only(h) || !noted(h)) -> h++
		:: h < HCAS && !(away & only(h)) && noted(h) ->
			if
			:: lease[j].struck = lease[j].struck | only(h)
			:: unwritten > 0 && !last -> unwritten--; unstruck = unstruck | only(h)
			fi;
			h++
		:: h == HCAS -> break
		od;
		K;
		/* func: lib/step Namespace.Undo */
#ifdef LAW_NAMESPACE_AFTER_HCAS
		namespace[j] = false;
#else
		if
		:: away == 0 -> namespace[j] = false
		:: else
		fi;
#endif
		holds();
		K
	};
	/* func: lib/step Claim.Undo
	 * func: lib/table Table.Release */
	atomic {
		h = 0;
#ifndef LAW_STRUCK_BEFORE_FREED
		if
		:: away == 0 -> lease[j].moved = 0; lease[j].struck = 0
		:: else -> away = away | unstruck
		fi;
		K;
#endif
		do
		:: h < HCAS ->
			if
			:: claim[h] == j + 1 && claimRound[h] == lease[j].round && (lease[j].claimed & only(h)) ->
#ifdef LAW_FREE_WHAT_IS_HOME
				quarantined[h] = false;
#else
				quarantined[h] = (away & only(h)) != 0;
#endif
				if
				:: quarantined[h]
				:: else -> claim[h] = FREE; claimRound[h] = 0
				fi
			:: else
			fi;
			h++
		:: else -> break
		od;
		h = 0;
		holds();
		K;
		if
		:: away != 0 -> goto unlock /* something remains, and so does the lease */
		:: else
		fi;
		/* func: lib/state Lease.Remove */
		lease[j].there = false; lease[j].marked = false;
		lease[j].claimed = 0; lease[j].moved = 0; lease[j].struck = 0; lease[j].round = 0;
		if
		:: kind == PROLOG && !failing -> goto abandoned /* it was an earlier run's */
		:: else
		fi
	};

unlock:
	atomic { if :: lease[j].lock == _pid + 1 -> lease[j].lock = 0 :: else fi; goto ended };

	/* The kernel closes what a killed program has open, and so lets go of its locks. */
dead:
	atomic {
		if :: lease[j].lock == _pid + 1 -> lease[j].lock = 0 :: else fi;
		h = 0;
		do
		:: h < HCAS -> if :: hcaLock[h] == _pid + 1 -> hcaLock[h] = 0 :: else fi; h++
		:: else -> break
		od
	};
ended:
	atomic {
		if :: kind == PROLOG && result[j] == 0 -> result[j] = 2 :: else fi;
		running--
	}
}

inline start(kind, j, r, wants)
{
	atomic { running++; run Program(kind, j, r, wants) }
}

/* Slurm runs a job: its prolog, its tasks if that succeeds, its epilog; and some of it again. */
proctype Slurm(byte j; byte wants; byte runs)
{
	byte r = 1;
	byte h;

	do
	:: r > runs -> break
	:: r <= runs ->
		atomic { result[j] = 0; start(PROLOG, j, r, wants) };
		if
		:: result[j] == 1 ->
			/* The plugin lets a task in only if the lease counts. A sweep, or a person's
			 * epilog, may have been there before. */
			atomic {
				if
				:: lease[j].complete && lease[j].round == r -> lease[j].marked = true; step[j] = true
				:: else
				fi
			};
			atomic {
				h = 0;
				do
				:: h < HCAS -> assert(!step[j] || !(lease[j].claimed & only(h)) || (where[h] == j + 1 && claim[h] == j + 1)); h++
				:: else -> break
				od;
				h = 0;
				step[j] = false
			}
		:: result[j] == 2
		fi;
		if
		:: start(EPILOG, j, r, 0)
		:: r < runs -> skip /* slurmd died, and the job is requeued without an epilog */
		fi;
		r++
	od;
	running--
}

init
{
	byte h;

	atomic {
		running = 2 + SWEEPS;
		run Slurm(0, WANTS, RUNS);
		run Slurm(1, 1, OTHERS);
#if SWEEPS > 0
		run Program(SWEEP, 0, 0, 0)
#endif
	};
	atomic { running == 0; last = true };
	/* Moves that were given up land, and what is left is undone by the next epilog. */
	do
	:: h < HCAS -> !moving[h]; h++
	:: else -> break
	od;
	start(EPILOG, 0, 9, 0);
	running == 0;
	start(EPILOG, 1, 9, 0);
	running == 0;
	h = 0;
	do
	:: h < HCAS -> assert(where[h] == HOME && claim[h] == FREE && !moving[h]); h++
	:: else -> break
	od;
	assert(!lease[0].there && !lease[1].there && !namespace[0] && !namespace[1])
}
