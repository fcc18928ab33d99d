#!/bin/bash
# A full collection of a heap with many small objects stops the Java thread `request-loop`.
# needs: default-jdk-headless
# expect: request-loop\[\d+\].*(VM Thread|GC Thread)
. "$(dirname "$0")/lib.sh"
cat >S.java <<'J'
import java.util.*;
public class S {
  static Object kept;
  public static void main(String[] a) throws Exception {
    boolean quiet = System.getenv("QUIET") != null && !System.getenv("QUIET").isEmpty();
    List<int[]> all = new LinkedList<>(); for (int i = 0; i < 1500000; i++) all.add(new int[2]); kept = all;
    Thread loop = new Thread(() -> { try {
      long worst = 0, at = 0, end = System.nanoTime() + 1500000000L;
      while (System.nanoTime() < Math.max(end, at + worst + 300000000L)) {
        long b = System.nanoTime(); Thread.sleep(3); long t = System.nanoTime() - b - 3000000;
        if (t > worst) { worst = t; at = b + 3000000; } }
      System.out.printf(Locale.ROOT, "victim request-loop from %.6f to %.6f%n", at / 1e9, (at + worst) / 1e9);
    } catch (InterruptedException e) { } }, "request-loop");
    loop.start(); Thread.sleep(800); if (!quiet) System.gc(); loop.join();
  }
}
J
prepared || javac S.java
begin
java -XX:+UseSerialGC -Xms400m -Xmx400m S
