#!/bin/bash
# A build in which everything waits for one generator.
# needs: make gcc python3
# batch
# expect: gen-tables
. "$(dirname "$0")/lib.sh"
begin
cat >gen-tables <<P
#!/usr/bin/python3
import hashlib
open('/proc/self/comm', 'w').write('gen-tables')
hashlib.pbkdf2_hmac('sha256', b'table', b'salt', 1500000)
print('int table[] = {1};')
P
chmod +x gen-tables
for i in 1 2 3 4 5 6; do echo "extern int table[]; int f$i(int x) { return x * table[0] + $i; }" >f$i.c; done
echo 'int main(void) { return 0; }' >main.c
{
    echo 'all: prog'
    echo 'prog: main.o table.o f1.o f2.o f3.o f4.o f5.o f6.o; gcc -o $@ $^'
    echo 'table.c:; ./gen-tables > $@'
    echo '%.o: %.c; gcc -O2 -c $< -o $@'
} >Makefile
rm -f table.c
if [[ $quiet ]]; then echo 'int table[] = {1};' >table.c; fi
rm -f *.o prog
make -s -j2
