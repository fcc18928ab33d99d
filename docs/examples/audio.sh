# A thread with real-time priority waits for a lock whose owner gets no CPU.
# shellcheck shell=bash
cp "$TOP/tests/programs/audio.c" .
build() { gcc -O2 -g -pthread audio.c -o audio; }
build

block record
run 'sudo fxtrec -q -- ./audio'

block why
run 'fxtrec why audio.fxt'

# The same for the README, without the chain.
block answer
run 'sudo fxtrec -q -- ./audio'
run 'fxtrec why audio.fxt' '/^What it waited for/,/^$/d'

# The fix that `why` proposes: the first lines of main give the lock another protocol.
sed -i '/^int main/{n;a\
	pthread_mutexattr_t inherit;\
	pthread_mutexattr_init(\&inherit);\
	pthread_mutexattr_setprotocol(\&inherit, PTHREAD_PRIO_INHERIT);\
	pthread_mutex_init(\&lock, \&inherit);
}' audio.c
build

block fixed
run 'sudo fxtrec -q -o fixed.fxt -- ./audio'
