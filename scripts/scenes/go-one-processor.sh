#!/bin/bash
# A Go server with GOMAXPROCS=1: computing goroutines of one request keep those of `checkout` waiting.
# needs: golang-go curl
# expect: server\[\d+\].* ran 
. "$(dirname "$0")/lib.sh"
cat >s.go <<'G'
package main
import ("fmt"; "net/http")
var sink int
func work() { x := 0; for i := 0; i < 300000000; i++ { x += i ^ x }; sink = x }
func main() {
	http.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		done := make(chan bool); for i := 0; i < 4; i++ { go func() { work(); done <- true }() }
		for i := 0; i < 4; i++ { <-done }; fmt.Fprintln(w, "done") })
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	http.ListenAndServe("127.0.0.1:7782", nil)
}
G
prepared || GOCACHE=$scene_dir/cache go build -o server s.go
begin
GOMAXPROCS=1 ./server & children+=($!)
await_port 7782
if [[ ! $quiet ]]; then (sleep 0.6; exec curl -s -o /dev/null http://127.0.0.1:7782/report) & children+=($!); fi
client checkout 7782 1.8 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
