// Blocks in read(2) for 20 ms at a time, below functions of known names, while another goroutine writes.
package main

import (
	"runtime"
	"syscall"
	"time"
)

const rounds = 12

//go:noinline
func blocksInRead(pipe int) int {
	var byte [1]byte
	got, _ := syscall.Read(pipe, byte[:])
	return got + 1
}

//go:noinline
func servesOne(pipe int) int {
	return blocksInRead(pipe) + 1
}

func main() {
	runtime.LockOSThread()
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		panic(err)
	}
	go func() {
		for i := 0; i < rounds; i++ {
			time.Sleep(20 * time.Millisecond)
			syscall.Write(pipe[1], []byte{1})
		}
	}()
	for i := 0; i < rounds; i++ {
		if servesOne(pipe[0]) != 3 {
			panic("nothing read")
		}
	}
}
