// Members of a group, or a producer, with the client of Apache Kafka; ends with its input.

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Clients {
    private static final AtomicBoolean stopping = new AtomicBoolean();

    public static void main(String[] arguments) throws Exception {
        Thread input = new Thread(Clients::waitForEnd);
        input.setDaemon(true);
        input.start();
        String bootstrap = arguments[1];
        String topic = arguments[2];
        if (arguments[0].equals("write")) {
            int keys = Integer.parseInt(arguments[4]);
            write(bootstrap, topic, arguments[3], keys, Long.parseLong(arguments[5]));
            return;
        }
        int members = Integer.parseInt(arguments[5]);
        Thread[] threads = new Thread[members];
        for (int number = 0; number < members; number++) {
            threads[number] = new Thread(() -> read(bootstrap, topic, arguments[3], arguments[4]));
            threads[number].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void waitForEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (java.io.IOException ended) {
            // As good as an end.
        }
        stopping.set(true);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void read(String bootstrap, String topic, String group, String kind) {
        Properties reading = new Properties();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("group.id", group);
        reading.put("auto.offset.reset", "latest");
        reading.put("auto.commit.interval.ms", 500);
        reading.put("fetch.max.wait.ms", 50);
        reading.put("key.deserializer", ByteArrayDeserializer.class.getName());
        reading.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (kind.equals("consumer")) {
            reading.put("group.protocol", "consumer");
        } else {
            reading.put("partition.assignment.strategy", kind);
            reading.put("heartbeat.interval.ms", 500);
            // A leader assigns what it knows of, and asks no sooner than this.
            reading.put("metadata.max.age.ms", 1000);
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading)) {
            consumer.subscribe(List.of(topic), new Told());
            while (!stopping.get()) {
                // Positions are committed by a later poll: when all of this was said.
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    long now = System.currentTimeMillis();
                    String seen = "seen " + record.partition() + " " + new String(record.value());
                    String when = " " + (now - record.timestamp()) + " " + now + " ";
                    say(seen + when + Thread.currentThread().getName());
                }
            }
        }
    }

    private static class Told implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            for (TopicPartition each : partitions) {
                say("assigned " + each.partition());
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
    }

    private static void write(
            String bootstrap, String topic, String number, int keys, long pauseMs)
            throws Exception {
        Properties writing = new Properties();
        writing.put("bootstrap.servers", bootstrap);
        writing.put("linger.ms", 2);
        writing.put("key.serializer", ByteArraySerializer.class.getName());
        writing.put("value.serializer", ByteArraySerializer.class.getName());
        int count = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing)) {
            while (!stopping.get()) {
                for (int key = 0; key < keys; key++) {
                    byte[] name = ("key-" + number + "-" + key).getBytes();
                    byte[] value = (number + ":" + key + ":" + count).getBytes();
                    producer.send(new ProducerRecord<>(topic, name, value), Clients::answered);
                    Thread.sleep(pauseMs);
                }
                count++;
            }
        }
        say("sent " + count);
    }

    private static void answered(Object stored, Exception failure) {
        if (failure != null) {
            say("failed " + failure);
        }
    }
}
