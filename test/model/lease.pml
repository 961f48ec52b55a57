/* How leases are taken and returned: a model for spin. README.md says what it covers, what it
 * leaves out, and what each invariant is good for.
 *
 * The runs of two jobs go through their prologs, steps and epilogs on one node, while a person or
 * a timer cleans up and releases. Each program can be killed at each K. A mover can outlive the
 * program that started it. In the end nobody is killed any more and the epilog of each job runs
 * once again: then each HCA must be back and free, or quarantined if its move has not ended.
 *
 * "func:" names a function that the code after it stands for; a test fails if it is gone. Each
 * WITHOUT_... leaves one invariant out, and spin must find a fault then.
 */
#ifndef HCAS
#define HCAS 1
#endif
#ifndef WANTS
#define WANTS 1       /* HCAs that job 0 asks for; job 1 asks for one */
#endif
#ifndef RUNS
#define RUNS 1        /* of job 0, which is requeued for the second; the first one's epilog may be late */
#endif
#ifndef OTHERS
#define OTHERS 1      /* runs of job 1 */
#endif
#ifndef CLEANUPS
#define CLEANUPS 0
#endif
#ifndef RELEASES
#define RELEASES 0
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef HANGS
#define HANGS 0       /* moves that are given up while the kernel is at them */
#endif
#ifndef UNWRITTEN
#define UNWRITTEN 0   /* undone marks that a full /run keeps from the journal */
#endif
#ifndef BLOTS
#define BLOTS 0       /* undone marks that do not read any more */
#endif
#ifndef REBOOTS
#define REBOOTS 0
#endif

#define PROLOG 1
#define EPILOG 2
#define CLEANUP 3
#define RELEASE 4

#define NODE 0        /* where an HCA is; else its job + 1, whose namespace has it */
#define LOST 9        /* in a namespace that is gone */
#define NOWHERE 8     /* where a mover brings what it has: nothing is moved */
#define FREE 0        /* whose claim it is; else its job + 1 */
#define NOBODY 0
#define only(h) (1 << (h))
#define has(set, h) (((set) >> (h)) & 1)

/* What the kernel has. */
byte where[HCAS];
byte moving[HCAS] = NOWHERE;  /* where a mover brings it; the mover holds the HCA's lock, too */
byte hcaLock[HCAS];           /* the program that holds it */
bool namespace[2];            /* of each job */

/* The node table, lib/state/table: a link for each claim. A kill may come between two. */
byte claim[HCAS];
byte claimRun[HCAS];
bool quarantined[HCAS];

/* jobs/JOBID, and the job's lock. */
typedef Lease {
	byte lock;        /* the program that holds it */
	byte round;       /* which run of the job it is; 0: there is no lease */
	bool complete;    /* env is there */
	bool marked;      /* the job had an extern step */
	byte claimed;     /* HCAs in the entry of the claim, which is not marked undone */
	byte moved;       /* HCAs whose moves have an entry */
	byte undone;      /* those of them that are marked undone */
}
Lease lease[2];

/* What Slurm has of each job. */
byte live[2];         /* the run that has been started and has not ended */
bool steps[2];        /* that run has a slurmstepd */
byte next[2] = 1;     /* the run that may begin */

byte kills = KILLS, hangs = HANGS, unwritten = UNWRITTEN;
byte running;         /* programs, and jobs that will start one */
bool last;            /* nobody is killed any more, and nobody gives up what can be done */

/* What a release of the lease's claims looks at. */
#define owns(h) (claim[h] == j + 1 && claimRun[h] == lease[j].round && lease[j].claimed)
#ifdef WITHOUT_FREE_WHAT_IS_HOME
#define freed(h) true
#else
#define freed(h) !has(away, h)
#endif

/* Here the program may be killed. */
#define K if :: kills > 0 && !last -> kills--; TELL("is killed\n"); goto dead :: true fi

/* For traces: who does it, and what. */
#define TELL(what) printf("%d %d %d ", kind, j, r); printf(what)
#define TELL1(what, n) printf("%d %d %d ", kind, j, r); printf(what, n)

/* At each step: nobody has what is another's, no HCA is where nobody looks for it, no claim is
 * free while a mover can act, and what a journal says is out is claimed for its lease. */
inline holds()
{
	d_step {
		i = 0;
		do
		:: i < HCAS ->
			assert(where[i] != LOST);
			assert(where[i] == NODE || (claim[i] == where[i] && namespace[where[i] - 1]));
			assert(moving[i] == NOWHERE || claim[i] != FREE);
#if BLOTS == 0
			assert(!(has(lease[0].moved, i) && !has(lease[0].undone, i)) || claim[i] == 1);
			assert(!(has(lease[1].moved, i) && !has(lease[1].undone, i)) || claim[i] == 2);
#endif
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline land(h)
{
	where[h] = moving[h];
	moving[h] = NOWHERE
}

/* func: lib/kernel/detach StartMoves
 * A mover brings an HCA where it was sent, at any later time, whoever still waits for it. */
active [HCAS] proctype Mover()
{
	byte i;

end:	do
	:: atomic { moving[_pid] != NOWHERE -> printf("the move of HCA %d ends\n", _pid); land(_pid); holds() }
	od
}

#ifdef WITHOUT_MOVER_HOLDS_LOCK
#define isLocked(h) (hcaLock[h] != NOBODY)
#else
#define isLocked(h) (hcaLock[h] != NOBODY || moving[h] != NOWHERE)
#endif

/* move has the kernel move an HCA, whose lock the program has, and waits for the end of it or
 * gives up. */
inline move(h, to)
{
	atomic {
		moving[h] == NOWHERE -> /* the kernel does one at a time */
		moving[h] = to;
		if :: to == NODE -> TELL1("starts to move HCA %d back\n", h) :: else -> TELL1("starts to move HCA %d into the job\n", h) fi;
		K
	};
	if
	:: atomic { moving[h] == NOWHERE -> hcaLock[h] = NOBODY }
	:: atomic { moving[h] != NOWHERE && hangs > 0 && !last -> hangs--; TELL("gives the move up\n"); hcaLock[h] = NOBODY; away = away | only(h) }
	:: atomic { moving[h] != NOWHERE && last && stuck -> hcaLock[h] = NOBODY; away = away | only(h) }
	fi
}

bool boot;            /* there was a reboot */
bool stuck;           /* moves that were given up have not ended yet */

#define listed(h) (has(lease[j].moved, h) && !has(lease[j].undone, h) && !has(others, h))

proctype Program(byte role; byte j; byte r; byte wants)
{
	byte kind, h, i, mine, away, others, unmarked, seenRun, seenClaim;
	bool counted, failing, taken, seenMark, seenSteps;

#if REBOOTS > 0
	bool booted = boot;

	do
	:: {
#endif
	if
	:: role == CLEANUP -> kind = CLEANUP; goto start
	:: role == RELEASE -> kind = RELEASE; goto start
	:: role == EPILOG -> kind = EPILOG; goto start
	:: role == PROLOG && kind == 0 -> atomic { next[j] == r && live[j] == 0 -> kind = PROLOG }
	:: role == PROLOG && kind != 0 -> goto epilogue /* of a run that a reboot ended */
	fi;

	/* func: lib/lease underLock
	 * func: lib/lease Host.leaseToCleanUp
	 * func: lib/state LockJob
	 * func: lib/state TryLockJob */
start:
#ifndef WITHOUT_JOB_LOCK
	if
	:: atomic { lease[j].lock == NOBODY -> lease[j].lock = _pid }
	:: atomic { lease[j].lock != NOBODY && (kind == CLEANUP || kind == RELEASE) -> goto ended }
	fi;
#endif
	if
	:: kind == PROLOG -> goto prolog
	:: kind == EPILOG -> goto epilog
	:: kind == CLEANUP -> goto cleanup
	:: kind == RELEASE -> goto release
	fi;

	/* func: lib/lease Host.Take
	 * func: lib/lease Host.endLeftovers */
prolog:
	atomic {
		if
		:: lease[j].round == 0 -> goto abandoned
		:: lease[j].round == r && lease[j].complete -> taken = true; goto unlock
		:: else -> TELL("finds an earlier lease\n"); goto rollback
		fi
	};

	/* func: lib/lease Host.Restore */
epilog:
	atomic {
		if
		:: lease[j].round == 0 -> goto abandoned
#ifndef WITHOUT_LATER_RUN_IS_LEFT_ALONE
		:: lease[j].round > r && r > 0 -> goto unlock
		:: lease[j].round > 0 && (lease[j].round <= r || r == 0) -> goto rollback
#else
		:: else -> goto rollback
#endif
		fi
	};

	/* func: lib/lease Host.cleanup
	 * func: lib/lease evidenceOf
	 * func: lib/lease evidence.look
	 * The processes are looked at without the job's lock. */
cleanup:
	atomic {
		if
		:: lease[j].round == 0 -> goto abandoned
		:: else
		fi;
		seenRun = lease[j].round;
		seenMark = lease[j].marked;
		lease[j].lock = NOBODY
	};
	atomic { TELL("looks at processes\n"); seenSteps = steps[j] };
	/* func: lib/lease evidence.judge */
	atomic {
#ifndef WITHOUT_JOB_LOCK
		if
		:: lease[j].lock == NOBODY -> lease[j].lock = _pid
		:: else -> goto ended
		fi;
#endif
		if
		:: lease[j].round == 0 -> goto unlock
#ifndef WITHOUT_CLEANUP_KNOWS_WHAT_IT_LOOKED_AT
		:: lease[j].round != seenRun || lease[j].marked != seenMark -> goto unlock
#endif
#ifndef WITHOUT_CLEANUP_SPARES_WHO_RUNS
		:: seenSteps -> goto unlock
#endif
#ifndef WITHOUT_CLEANUP_SPARES_WHO_MAY_START
		:: !lease[j].marked && lease[j].complete -> goto unlock
#endif
		:: else -> goto rollback
		fi
	};

	/* func: lib/lease Host.Release
	 * func: lib/lease Host.free
	 * func: lib/lease Host.releaseFrom */
release:
	atomic {
		h = 0;
		do
		:: h < HCAS && claim[h] == j + 1 && quarantined[h] -> break
		:: h < HCAS && !(claim[h] == j + 1 && quarantined[h]) -> h++
		:: h == HCAS -> h = 0; goto unlock
		od;
		seenClaim = h + 1;
		h = 0;
		if
		:: lease[j].round == 0 || steps[j] || (!lease[j].marked && lease[j].complete) -> goto unlock
		:: else -> goto rollback
		fi
	};
	/* func: lib/lease Lease.giveUp
	 * func: lib/lease isReturned
	 * func: lib/state IsMoving */
giveUp:
	atomic {
		h = seenClaim - 1;
		seenClaim = 0;
		if
		:: has(away, h) && !isLocked(h) && where[h] == NODE && has(lease[j].moved, h) -> lease[j].undone = lease[j].undone | only(h); h = 0; K; goto rollback
		:: else -> h = 0; goto unlock
		fi
	};

	/* func: lib/lease openHeadless
	 * Only a person who removes a lease leaves claims without one. */
abandoned:
	atomic {
		d_step {
			h = 0;
			do
			:: h < HCAS ->
				assert(claim[h] != j + 1); h++
			:: else -> break
			od;
			h = 0
		};
		if
		:: kind == PROLOG -> goto create
		:: else -> goto unlock
		fi
	};

	/* func: lib/lease Host.takeLease
	 * func: lib/lease create */
create:
	atomic {
		TELL("makes the lease\n");
		lease[j].round = r;
		failing = true;
		K
	};
	/* func: lib/lease taking.claimLocked
	 * func: lib/lease/host Host.Pick
	 * func: lib/state/table Folder.Begin
	 * Whoever writes the table has the node lock from Begin to Close: nobody else is between. */
	atomic {
		i = 0;
		do
		:: h < HCAS && i < wants && claim[h] == FREE -> mine = mine | only(h); i++; h++
		:: h < HCAS && (i == wants || claim[h] != FREE) -> h++
		:: h == HCAS -> break
		od;
		h = 0;
		if
		:: i < wants -> TELL("finds too few HCAs\n"); i = 0; mine = 0; goto rollback
		:: else -> TELL("picks HCAs\n"); i = 0
		fi
#ifdef WITHOUT_NODE_LOCK
	};
	atomic {
#else
		;
#endif
		/* func: lib/lease Lease.AddEntry
		 * func: lib/state/journal Journal.Add */
#ifndef WITHOUT_CLAIM_IS_JOURNALED_FIRST
		lease[j].claimed = mine;
		K;
#endif
		/* func: lib/lease/step Claim.Do
		 * func: lib/state/table Change.Commit */
		do
		:: h < HCAS && has(mine, h) -> claim[h] = j + 1; claimRun[h] = r; quarantined[h] = false; h++; K
		:: h < HCAS && !has(mine, h) -> h++
		:: h == HCAS -> break
		od;
		h = 0;
		TELL("writes its claim into the table\n");
#ifdef WITHOUT_CLAIM_IS_JOURNALED_FIRST
		lease[j].claimed = mine;
#endif
		holds()
	};
	/* func: lib/lease/step Namespace.Do */
	atomic { namespace[j] = true; K };
	/* func: lib/lease/step Plan
	 * func: lib/lease Lease.CarryOut
	 * func: lib/lease/step StartMoves */
	do
	:: h < HCAS && !has(mine, h) -> h++
	:: h < HCAS && has(mine, h) ->
#ifndef WITHOUT_ENTRY_BEFORE_STEP
		atomic { lease[j].moved = lease[j].moved | only(h); K };
#endif
		atomic {
			if
			:: !isLocked(h) -> hcaLock[h] = _pid
			:: else -> goto rollback /* an earlier move of it has not ended */
			fi;
			if
			:: where[h] != NODE -> hcaLock[h] = NOBODY; goto rollback
			:: else
			fi
		};
		move(h, j + 1);
#ifdef WITHOUT_ENTRY_BEFORE_STEP
		atomic { K; lease[j].moved = lease[j].moved | only(h) };
#endif
		if
		:: away != 0 -> goto rollback
		:: else -> h++
		fi
	:: h == HCAS -> break
	od;
	/* func: lib/lease/environment Lease.Write
	 * func: lib/lease/environment writeEnv */
	atomic {
		K;
		TELL("commits\n");
		lease[j].complete = true;
		failing = false;
		h = 0;
		do
		:: h < HCAS -> assert(!has(mine, h) || (where[h] == j + 1 && claim[h] == j + 1 && claimRun[h] == r && !quarantined[h])); h++
		:: else -> break
		od;
		h = 0;
		taken = true;
		goto unlock
	};

	/* func: lib/lease Lease.Rollback
	 * func: lib/lease Lease.left
	 * func: lib/lease Lease.peers */
rollback:
	atomic {
		h = 0; away = 0; unmarked = 0; others = 0;
		TELL("begins to roll back\n");
		K;
		assert(live[j] == 0 || live[j] != lease[j].round);
#ifdef WITHOUT_ASK_THE_WORLD
		counted = lease[j].complete;
#endif
		lease[j].complete = false;
		K;
#ifndef WITHOUT_OTHERS_ARE_SPARED
		d_step {
			do
			:: h < HCAS ->
				if
				:: claim[h] != FREE && !(claim[h] == j + 1 && claimRun[h] == lease[j].round) && where[h] != j + 1 -> others = others | only(h)
				:: else
				fi;
				h++
			:: else -> break
			od;
			h = 0
		}
#endif
	};
	/* func: lib/lease Lease.returnParts
	 * func: lib/lease/step StartUndos
	 * func: lib/lease/step RDMA.Lock
	 * func: lib/state LockHCA */
	do
	:: h < HCAS && !listed(h) -> h++
	:: h < HCAS && listed(h) ->
#ifdef WITHOUT_MARK_AFTER_UNDO
		atomic { TELL1("marks HCA %d\n", h); lease[j].undone = lease[j].undone | only(h); K };
#endif
		if
		:: atomic { !isLocked(h) -> hcaLock[h] = _pid }
		:: atomic { isLocked(h) && (!last || stuck) -> TELL1("finds HCA %d locked\n", h); away = away | only(h); h++; goto skipped }
		fi;
		atomic {
			if
#ifdef WITHOUT_ASK_THE_WORLD
			:: !counted -> TELL1("does not look for HCA %d\n", h); hcaLock[h] = NOBODY; h++; goto skipped /* without env nothing can have been moved */
			:: else
#else
			:: where[h] == NODE -> TELL1("finds HCA %d on the node\n", h); hcaLock[h] = NOBODY; h++; goto skipped
#ifndef WITHOUT_OTHERS_ARE_SPARED
			/* func: lib/hca/world World.OthersHave */
			:: where[h] != NODE && where[h] != j + 1 && claim[h] == where[h] -> hcaLock[h] = NOBODY; h++; goto skipped
			:: else
#else
			:: else
#endif
#endif
			fi
		};
		move(h, NODE);
		h++;
skipped:	skip
	:: h == HCAS -> break
	od;
	/* func: lib/lease Lease.lookAgain
	 * func: lib/lease Lease.markUndone
	 * func: lib/state/journal Journal.MarkUndone */
	atomic {
		h = 0;
		do
		:: h < HCAS && (has(away, h) || !listed(h)) -> h++
		:: h < HCAS && !has(away, h) && listed(h) ->
			if
			:: lease[j].undone = lease[j].undone | only(h)
			:: unwritten > 0 && !last -> unwritten--; TELL1("cannot mark HCA %d\n", h); unmarked = unmarked | only(h)
			fi;
			K;
			h++
		:: h == HCAS -> break
		od;
		h = 0
	};
	/* func: lib/lease Lease.undoAll
	 * func: lib/lease/step Namespace.Undo */
	atomic {
		d_step {
			if
#ifndef WITHOUT_NAMESPACE_AFTER_HCAS
			:: away != 0
#endif
			:: else ->
				if :: namespace[j] -> TELL("removes the namespace\n") :: else fi;
				namespace[j] = false;
				do
				:: h < HCAS ->
					if :: moving[h] == j + 1 -> moving[h] = LOST :: else fi;
					if :: where[h] == j + 1 -> where[h] = LOST :: else fi;
					h++
				:: else -> break
				od;
				h = 0
			fi
		};
		holds();
		K;
		/* func: lib/lease Lease.shorten
		 * func: lib/lease Lease.quarantineUnmarked */
#ifndef WITHOUT_MARKED_BEFORE_FREED
		if
		:: away == 0 -> lease[j].moved = 0; lease[j].undone = 0; unmarked = 0
		:: else -> away = away | unmarked
		fi;
		K
#endif
	};
	/* func: lib/lease/step Claim.Undo
	 * func: lib/state/table Table.Release
	 * func: lib/state/table Folder.Update */
	atomic {
#ifndef WITHOUT_FREE_WHAT_IS_HOME
		do
		:: h < HCAS && owns(h) && has(away, h) -> TELL1("quarantines HCA %d\n", h); quarantined[h] = true; h++; K
		:: h < HCAS && !(owns(h) && has(away, h)) -> h++
		:: h == HCAS -> break
		od;
		h = 0;
#endif
		do
		:: h < HCAS && owns(h) && freed(h) -> TELL1("frees HCA %d\n", h); quarantined[h] = false; K; claim[h] = FREE; claimRun[h] = 0; h++; K
		:: h < HCAS && !(owns(h) && freed(h)) -> h++
		:: h == HCAS -> break
		od;
		h = 0;
		holds();
		K
	};
	/* func: lib/state Lease.Remove */
	atomic {
		if
		:: away != 0 && seenClaim -> goto giveUp
		:: away != 0 && !seenClaim -> goto unlock /* something remains, and so does the lease */
		:: else
		fi;
		lease[j].claimed = 0;
		K;
		d_step { TELL("removes the lease\n"); lease[j].round = 0; lease[j].marked = false; lease[j].moved = 0; lease[j].undone = 0 };
		if
		:: kind == PROLOG && !failing -> goto abandoned /* it was an earlier run's */
		:: else
		fi
	};

unlock:
	atomic { if :: lease[j].lock == _pid -> lease[j].lock = NOBODY :: else fi; goto ended };

	/* The kernel closes what a killed program has open, and so lets go of its locks. */
dead:
	atomic {
		if :: lease[j].lock == _pid -> lease[j].lock = NOBODY :: else fi;
		h = 0;
		do
		:: h < HCAS -> if :: hcaLock[h] == _pid -> hcaLock[h] = NOBODY :: else fi; h++
		:: else -> break
		od;
		taken = false
	};
ended:
	atomic {
		h = 0; i = 0; mine = 0; away = 0; others = 0; unmarked = 0; failing = false;
		seenRun = 0; seenClaim = 0; seenMark = false; seenSteps = false;
		if
		:: kind == PROLOG && taken -> taken = false; live[j] = r; goto job
		:: kind == PROLOG && !taken -> next[j] = r + 1; goto epilogue
		:: else -> running--; goto over
		fi
	};
	/* The plugin lets a step in only if the lease counts. */
job:
	atomic { assert(lease[j].complete && lease[j].round == r); TELL("its steps start\n"); steps[j] = true };
	atomic { lease[j].marked = true };
	atomic {
		do
		:: h < HCAS -> assert(!has(lease[j].claimed, h) || (where[h] == j + 1 && claim[h] == j + 1 && claimRun[h] == r)); h++
		:: else -> break
		od;
		h = 0;
		TELL("its steps end\n");
		steps[j] = false; live[j] = 0; next[j] = r + 1
	};
epilogue:
	if
	:: kind = EPILOG; goto start
	:: atomic { running--; goto over } /* slurmd died, and the job is requeued without an epilog */
	fi;
#if REBOOTS > 0
	} unless {
		atomic {
			boot != booted ->
			booted = boot;
			h = 0; i = 0; mine = 0; away = 0; others = 0; unmarked = 0; failing = false; taken = false;
			seenRun = 0; seenClaim = 0; seenMark = false; seenSteps = false;
			if
			:: role == PROLOG && kind != 0 -> next[j] = r + 1
			:: role == PROLOG && kind == 0
			:: else -> running--; goto over
			fi
		}
	}
	od;
#endif
over:
	skip
}

#if REBOOTS > 0
/* All of /run and all namespaces are gone, and the programs; Slurm's jobs are requeued. */
active proctype Reboot()
{
	byte h;

	if
	:: atomic {
		!last ->
		d_step {
			do
			:: h < HCAS -> where[h] = NODE; moving[h] = NOWHERE; hcaLock[h] = NOBODY; claim[h] = FREE; claimRun[h] = 0; quarantined[h] = false; h++
			:: else -> break
			od;
			h = 0;
			do
			:: h < 2 ->
				lease[h].lock = NOBODY; lease[h].round = 0; lease[h].complete = false; lease[h].marked = false;
				lease[h].claimed = 0; lease[h].moved = 0; lease[h].undone = 0; namespace[h] = false; live[h] = 0; steps[h] = false;
				h++
			:: else -> break
			od;
			h = 0;
			boot = true
		}
	}
	:: last
	fi
}
#endif

#if BLOTS > 0
active proctype Blot()
{
	bit j;
	byte h;

	if
	:: h = 0
	:: HCAS > 1 -> h = 1
	fi;
	if
	:: atomic { !last && has(lease[j].undone, h) -> printf("the undone mark of HCA %d does not read any more\n", h); lease[j].undone = lease[j].undone & ~only(h) }
	:: last
	fi
}
#endif

init
{
	byte h;

	atomic {
		running = RUNS + OTHERS + CLEANUPS + RELEASES;
		run Program(PROLOG, 0, 1, WANTS);
#if RUNS > 1
		run Program(PROLOG, 0, 2, WANTS);
#endif
#if OTHERS > 0
		run Program(PROLOG, 1, 1, 1);
#endif
#if CLEANUPS > 0
		run Program(CLEANUP, 0, 0, 0);
#endif
#if RELEASES > 0
		run Program(RELEASE, 0, 0, 0);
#endif
	};
	/* A move that was given up may never end. */
	atomic { running == 0; last = true; stuck = true };
	atomic { running = 1; run Program(EPILOG, 0, 0, 0) };
	running == 0;
	atomic { running = 1; run Program(EPILOG, 1, 0, 0) };
	atomic {
		running == 0;
		do
		:: h < HCAS -> assert((where[h] == NODE && claim[h] == FREE && moving[h] == NOWHERE) || quarantined[h]); h++
		:: else -> break
		od;
		h = 0
	};
	/* When it has ended, what is left is undone by the next epilog. */
	do
	:: h < HCAS -> moving[h] == NOWHERE; h++
	:: else -> break
	od;
	atomic { stuck = false; running = 1; run Program(EPILOG, 0, 0, 0) };
	running == 0;
	atomic { running = 1; run Program(EPILOG, 1, 0, 0) };
	atomic {
		running == 0;
		h = 0;
		do
		:: h < HCAS -> assert(where[h] == NODE && claim[h] == FREE && moving[h] == NOWHERE && hcaLock[h] == NOBODY); h++
		:: else -> break
		od;
		assert(!lease[0].round && !lease[1].round && !namespace[0] && !namespace[1])
	}
}
