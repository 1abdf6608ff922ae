/* One message; consumers that claim, work, ack, release, and die at any point; operators who requeue what the dead hold.
 *
 * A consumer has a presence lock under a token that is used once; the kernel lets go of it when the process dies. A claim is one
 * move to a name that was never used before and tells the token. Whoever moves or removes a claim names it exactly: if it is not
 * there any more, nothing happens. An operator reads the name, then tries the lock of its token, lets go of it again, then moves.
 *
 * BY_AGE: the operator does not ask whether the holder lives.
 * LOCKS_FIRST: the operator learns which locks are held, and reads the names after that.
 */
#ifndef CONSUMERS
#define CONSUMERS 3
#endif
#ifndef OPERATORS
#define OPERATORS 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#define RELEASES 1
#define TOKENS 8
#define NAMES 4                   /* the first claim, and one for each crash and release */

mtype = { new, cur, gone }
mtype box = new;
byte name;                  /* of the claim, where box is cur */
byte token_of[NAMES];       /* what each name says */
byte locks;                 /* bit t: the presence lock of token t is held */
byte tokens, names;         /* how many were given */
byte at_work;               /* living consumers that believe the message theirs */
byte acked, crashes, releases;

proctype Consumer()
{
	byte token, mine;
	bool holds;
born:
	atomic { token = tokens; tokens++; locks = locks | (1 << token); holds = false }
	do
	:: atomic { !holds && box == new && names < NAMES ->
		box = cur; mine = names; names++; name = mine; token_of[mine] = token; holds = true;
		at_work++; assert(at_work == 1) }
	:: atomic { holds ->
		holds = false; at_work--;
		if
		:: box == cur && name == mine -> box = gone; acked++; assert(acked == 1)
		:: else                                  /* ClaimLost */
		fi;
		mine = 0 }
	:: atomic { holds && releases < RELEASES ->
		releases++; holds = false; at_work--;
		if
		:: box == cur && name == mine -> box = new
		:: else
		fi;
		mine = 0 }
	:: atomic { crashes < CRASHES ->
		crashes++; locks = locks & ~(1 << token);
		if
		:: holds -> at_work--; holds = false
		:: else
		fi;
		mine = 0;
		goto born }
	:: atomic { box == gone && !holds -> break }
	od
}

proctype Operator()
{
	byte seen, held;
	do
#ifdef LOCKS_FIRST
	:: box == cur -> held = locks;
		atomic { if :: box == cur -> seen = name :: else -> goto again fi }
		if
		:: (held & (1 << token_of[seen])) -> goto again
		:: else
		fi;
#else
	:: atomic { box == cur -> seen = name }
#ifndef BY_AGE
		if
		:: (locks & (1 << token_of[seen])) -> goto again
		:: else                                  /* obtained, and dropped at once */
		fi;
#endif
#endif
		atomic {
			if
			:: box == cur && name == seen -> box = new
			:: else                              /* gone, or requeued by another */
			fi }
again:		atomic { seen = 0; held = 0 }           /* what is not used any more makes no new states */
	:: box == gone -> break
	od
}

init
{
	atomic {
		byte i;
		for (i : 1 .. CONSUMERS) { run Consumer() }
		for (i : 1 .. OPERATORS) { run Operator() }
	}
}
