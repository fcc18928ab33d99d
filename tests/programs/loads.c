/* Loads a library and runs its main: `loads LIBRARY ARGUMENT...`. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **values)
{
	void *library = count > 1 ? dlopen(values[1], RTLD_NOW) : NULL;
	int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "main") : NULL;
	if (!run) {
		fprintf(stderr, "loads: %s\n", dlerror());
		return 1;
	}
	return run(count - 1, values + 1);
}
