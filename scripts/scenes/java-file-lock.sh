#!/bin/bash
# The Java thread `audit` syncs a file while it has a monitor, for which `request-loop` waits with timeouts.
# needs: default-jdk-headless
# expect: ^request-loop\[\d+\].*until woken by audit\[\d+\]
. "$(dirname "$0")/lib.sh"
cat >S.java <<'J'
import java.io.*; import java.util.*;
public class S {
  static final Object lock = new Object(); static int n;
  static void write() throws IOException {
    try (FileOutputStream f = new FileOutputStream("audit")) {
      byte[] block = new byte[1 << 20]; long end = System.nanoTime() + 200000000L;
      while (System.nanoTime() < end) { f.getChannel().position(0); f.write(block); f.getFD().sync(); } }
  }
  public static void main(String[] a) throws Exception {
    boolean quiet = System.getenv("QUIET") != null && !System.getenv("QUIET").isEmpty();
    Thread audit = new Thread(() -> { try {
      Thread.sleep(700); synchronized (lock) { if (!quiet) write(); n++; }
    } catch (Exception e) { System.err.println(e); } }, "audit");
    Thread loop = new Thread(() -> { try {
      long worst = 0, at = 0, end = System.nanoTime() + 1500000000L;
      while (System.nanoTime() < Math.max(end, at + worst + 300000000L)) {
        long b = System.nanoTime(); synchronized (lock) { n++; } long t = System.nanoTime() - b;
        if (t > worst) { worst = t; at = b; } Thread.sleep(3); }
      System.out.printf(Locale.ROOT, "victim request-loop from %.6f to %.6f%n", at / 1e9, (at + worst) / 1e9);
    } catch (InterruptedException e) { } }, "request-loop");
    audit.start(); loop.start(); loop.join(); audit.join();
  }
}
J
prepared || javac S.java
begin
java S
