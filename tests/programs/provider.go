// A trace provider in Go, by docs/reference/providers.md alone and the standard library.
//
//	provider SPANS
//
// Records SPANS durations named `sleep`, each around a sleep of two milliseconds, and prints thread, begin and end of each in
// nanoseconds of CLOCK_MONOTONIC. It serves the modes streaming and oneshot.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	register, stopped, start, stop, terminate = 1, 3, 16, 17, 18
	oneshot, streaming                        = 0, 2
	started, saveBuffer, bufferSaved          = 1, 2, 3
	headerWords                               = 16
)

// Both sides run on one machine.
var order = binary.LittleEndian

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

// A control message, or with 16 bytes a packet of the FIFO.
func message(kind uint16, second uint16, length uint32, data uint64, payload string) []byte {
	bytes := make([]byte, 16, 16+len(payload))
	order.PutUint16(bytes[0:], kind)
	order.PutUint16(bytes[2:], second)
	order.PutUint32(bytes[4:], length)
	order.PutUint64(bytes[8:], data)
	return append(bytes, payload...)
}

// The text in whole words, padded with zeros.
func wordsOf(text string) []uint64 {
	padded := make([]byte, (len(text)+7)/8*8)
	copy(padded, text)
	words := make([]uint64, len(padded)/8)
	for at := range words {
		words[at] = order.Uint64(padded[at*8:])
	}
	return words
}

func inline(text string) uint64 { return 0x8000 | uint64(len(text)) }

func now() uint64 {
	var spec syscall.Timespec
	const monotonic = 1
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&spec)), 0)
	if failed != 0 {
		check(failed)
	}
	return uint64(spec.Nano())
}

// The shared buffer of one session: header, durable part, one or two rolling buffers.
type buffer struct {
	words            []uint64
	durable, rolling uint64
	mode, wrapped    uint64
	durableEnd, at   uint64
}

func newBuffer(fd int, size, mode uint64) *buffer {
	memory, err := syscall.Mmap(fd, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	check(err)
	total := size / 8
	b := &buffer{words: unsafe.Slice((*uint64)(unsafe.Pointer(&memory[0])), total), mode: mode}
	available := total - headerWords
	b.rolling = available
	if mode != oneshot {
		share := available / 16
		if share > 131072 {
			share = 131072
		}
		b.durable = share + (available-share)%2
		b.rolling = (available - b.durable) / 2
	}
	b.store(2, size)
	b.store(3, b.durable*8)
	b.store(4, b.rolling*8)
	b.identity()
	b.store(0, order.Uint64([]byte("FxTrBuf1")))
	return b
}

// Readers may read at any time: everything before a store must be visible before it.
func (b *buffer) store(at, word uint64) { atomic.StoreUint64(&b.words[at], word) }

func (b *buffer) identity() { b.store(1, 1|b.mode<<16|b.wrapped<<32) }

// Records that others refer to.
func (b *buffer) putDurable(words []uint64) {
	if b.mode == oneshot {
		b.put(words)
		return
	}
	for _, word := range words {
		b.store(headerWords+b.durableEnd%b.durable, word)
		b.durableEnd++
	}
	b.store(5, b.durableEnd*8)
}

func (b *buffer) base() uint64 { return headerWords + b.durable + b.wrapped&1*b.rolling }

// Returns whether there was room; records without room are counted in the header.
func (b *buffer) put(words []uint64) bool {
	if b.at+uint64(len(words)) > b.rolling {
		b.store(8, b.words[8]+1)
		return false
	}
	// The first word is written last: where it is zero, nothing was written.
	for at := len(words) - 1; at >= 0; at-- {
		b.store(b.base()+b.at+uint64(at), words[at])
	}
	b.at += uint64(len(words))
	return true
}

type provider struct {
	control, fifo int
	session       uint64
	process       uint64
	*buffer
}

func connect(name string) *provider {
	address := os.Getenv("FXTREC_PROVIDER_SOCKET")
	control, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	check(err)
	// A name that begins with @ is abstract, for Go as for fxtrec.
	check(syscall.Connect(control, &syscall.SockaddrUnix{Name: address}))
	list := name + "\ngo\n"
	_, err = syscall.Write(control, message(register, 1, uint32(len(list)), 0, list))
	check(err)
	for {
		data, descriptors := make([]byte, 65536), make([]byte, syscall.CmsgSpace(8))
		read, controlRead, _, _, err := syscall.Recvmsg(control, data, descriptors, syscall.MSG_CMSG_CLOEXEC)
		check(err)
		if read < 16 {
			check(fmt.Errorf("the manager closed the connection"))
		}
		switch kind := order.Uint16(data); kind {
		case terminate: // No session runs yet.
			continue
		case start:
		default:
			check(fmt.Errorf("message %d instead of START", kind))
		}
		messages, err := syscall.ParseSocketControlMessage(descriptors[:controlRead])
		check(err)
		fds, err := syscall.ParseUnixRights(&messages[0])
		check(err)
		mode, size := uint64(order.Uint32(data[16:])), order.Uint64(data[24:])
		if mode != oneshot && mode != streaming {
			check(fmt.Errorf("mode %d is not served", mode))
		}
		p := &provider{control, fds[1], order.Uint64(data[8:]), order.Uint64(data[32:]), newBuffer(fds[0], size, mode)}
		// Initialization: ticks per second.
		p.putDurable([]uint64{0x21, 1_000_000_000})
		// Thread 1 is this one.
		p.putDurable([]uint64{3 | 3<<4 | 1<<16, p.process, uint64(syscall.Gettid())})
		_, err = syscall.Write(p.fifo, message(started, 0, 1, 0, ""))
		check(err)
		return p
	}
}

func (p *provider) event(kind uint64, name string, time uint64) {
	body := append(wordsOf("go"), wordsOf(name)...)
	size := uint64(2 + len(body))
	head := 4 | size<<4 | kind<<16 | 1<<24 | inline("go")<<32 | inline(name)<<48
	p.put(append([]uint64{head, time}, body...))
}

// Continues in the other rolling buffer, and waits until this one is saved. A program that must not wait does this on a separate thread,
// and drops records in the meantime.
func (p *provider) save() {
	if p.mode != streaming {
		return
	}
	full, base := p.wrapped, p.base()
	used := p.at
	p.store(6+full&1, used*8)
	p.wrapped, p.at = full+1, 0
	p.identity()
	_, err := syscall.Write(p.fifo, message(saveBuffer, 0, uint32(full), p.durableEnd*8, ""))
	check(err)
	answer := make([]byte, 16)
	_, err = syscall.Read(p.fifo, answer)
	check(err)
	if order.Uint16(answer) != bufferSaved || order.Uint32(answer[4:]) != uint32(full) {
		check(fmt.Errorf("another answer than BUFFER_SAVED: %x", answer))
	}
	for at := uint64(0); at < used; at++ {
		p.store(base+at, 0)
	}
	p.store(6+full&1, 0)
}

func main() {
	spans, err := strconv.Atoi(os.Args[1])
	check(err)
	// Records name a kernel thread, so this goroutine stays on one thread.
	runtime.LockOSThread()
	p := connect("in go")
	for number := 0; number < spans; number++ {
		begin := now()
		p.event(2, "sleep", begin)
		time.Sleep(2 * time.Millisecond)
		end := now()
		p.event(3, "sleep", end)
		fmt.Println(syscall.Gettid(), begin, end)
		if number%8 == 7 {
			p.save()
		}
	}
}
