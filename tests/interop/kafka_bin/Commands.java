import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs commands of Apache Kafka one after the other in one process: each in a process of its own
 * would spend most of its time on starting. A line is a class, what it reads, and its arguments,
 * each in base 64; the answer is a line with the exit code and what was printed, in base 64.
 */
public class Commands {
    /** Thrown in place of the end of the process; some commands catch it and go on. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** Stays the same for all commands, since some classes keep what System.out was at first. */
    private static final class Printed extends OutputStream {
        private final ByteArrayOutputStream kept = new ByteArrayOutputStream();
        private boolean isClosed;

        @Override
        public synchronized void write(int one) {
            if (!isClosed) {
                kept.write(one);
            }
        }

        @Override
        public synchronized void write(byte[] some, int from, int count) {
            if (!isClosed) {
                kept.write(some, from, count);
            }
        }

        synchronized void open() {
            isClosed = false;
        }

        @Override
        public synchronized void close() {
            isClosed = true;
        }

        synchronized byte[] taken() {
            byte[] all = kept.toByteArray();
            kept.reset();
            return all;
        }
    }

    private static final int STILL_RUNNING = -1;
    private static final Printed PRINTED = new Printed();
    /** The first with which a command wants to end. */
    private static final AtomicInteger CODE = new AtomicInteger();
    /** What a command wants to be done at its end. */
    private static final Queue<Runnable> HOOKS = new ConcurrentLinkedQueue<>();

    public static void main(String[] arguments) throws Exception {
        long limitMs = Long.parseLong(arguments[0]);
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        System.setOut(new PrintStream(PRINTED, true));
        System.setErr(System.out);
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split(" ", -1);
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[1])));
            String[] own = new String[words.length - 2];
            for (int index = 0; index < own.length; index++) {
                own[index] = decoded(words[index + 2]);
            }
            int code = run(decoded(words[0]), own, limitMs);
            System.out.flush();
            answers.println(code + " " + Base64.getEncoder().encodeToString(PRINTED.taken()));
            answers.flush();
        }
        // Threads of commands may still run.
        Runtime.getRuntime().halt(0);
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static void end(int code) {
        if (CODE.compareAndSet(STILL_RUNNING, code)) {
            PRINTED.close();
        }
        throw new Ended();
    }

    private static int run(String name, String[] own, long limitMs) throws Exception {
        CODE.set(STILL_RUNNING);
        PRINTED.open();
        wait(() -> runToItsEnd(name, own), limitMs);
        int code = CODE.get();
        PRINTED.open();
        for (Runnable hook = HOOKS.poll(); hook != null; hook = HOOKS.poll()) {
            wait(hook, limitMs);
        }
        PRINTED.close();
        return code;
    }

    private static void wait(Runnable work, long limitMs) throws InterruptedException {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
        thread.join(limitMs);
    }

    private static void runToItsEnd(String name, String[] own) {
        int code = 0;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) own);
        } catch (InvocationTargetException failed) {
            code = 1;
            failed.getCause().printStackTrace();
        } catch (ReflectiveOperationException failed) {
            code = 1;
            failed.printStackTrace();
        }
        CODE.compareAndSet(STILL_RUNNING, code);
    }
}
