/*
 * Looks like CPython 3.11 to a reader of its memory: a state for this thread in an endless list, and a function that calls itself forever,
 * with a name whose length is false.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const unsigned long Py_Version = 0x030b07f0;
uint64_t _PyRuntime[128];
uint64_t PyCode_Type[52];

static uint64_t interpreter[16], states[2][48], c_frame[4], frame[16], code[32], text[8];

__attribute__((noinline)) void _PyEval_EvalFrameDefault(void)
{
	struct timespec time = { 0, 3000000 };

	nanosleep(&time, NULL);
}

int main(int count, char **arguments)
{
	int knows_thread = count > 1 && strcmp(arguments[1], "known") == 0;

	_PyRuntime[6] = (uint64_t)interpreter; /* interpreters.main */
	interpreter[2] = (uint64_t)states[0]; /* threads.head */
	states[0][1] = (uint64_t)states[1]; /* next */
	states[1][1] = (uint64_t)states[0];
	states[1][19] = knows_thread ? (uint64_t)pthread_self() : 1; /* thread_id */
	states[1][7] = (uint64_t)c_frame; /* cframe */
	c_frame[1] = (uint64_t)frame; /* current_frame */
	frame[4] = (uint64_t)code; /* f_code */
	frame[6] = (uint64_t)frame; /* previous */
	frame[7] = (uint64_t)code + 184; /* prev_instr */
	code[1] = (uint64_t)PyCode_Type; /* ob_type */
	code[14] = code[16] = (uint64_t)text; /* co_filename, co_qualname */
	code[17] = (uint64_t)text; /* co_linetable */
	text[2] = UINT64_MAX; /* length */
	text[4] = 1 << 2 | 1 << 5 | 1 << 6; /* one byte each, behind the head, ASCII */
	nanosleep(&(struct timespec){ 2, 0 }, NULL);
	for (int round = 0; round < 50; round++)
		_PyEval_EvalFrameDefault();
	return 0;
}
