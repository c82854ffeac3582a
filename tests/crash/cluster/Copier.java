// Copies a topic in transactions with the client of Apache Kafka; says on stdout what it bore.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Copier {
    public static void main(String[] arguments) {
        while (true) {
            try {
                copy(arguments[0], arguments[1], arguments[2]);
            } catch (KafkaException failure) {
                say("new copier after", failure);
            }
        }
    }

    private static void copy(String bootstrap, String source, String target) {
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        common.put("reconnect.backoff.max.ms", 250);
        common.put("request.timeout.ms", 5000);
        Properties writing = new Properties();
        writing.putAll(common);
        writing.put("transactional.id", "copy");
        writing.put("transaction.timeout.ms", 20000);
        writing.put("delivery.timeout.ms", 20000);
        writing.put("key.serializer", ByteArraySerializer.class.getName());
        writing.put("value.serializer", ByteArraySerializer.class.getName());
        Properties reading = new Properties();
        reading.putAll(common);
        reading.put("group.id", "copy");
        reading.put("group.protocol", "consumer");
        reading.put("enable.auto.commit", false);
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("key.deserializer", ByteArrayDeserializer.class.getName());
        reading.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing);
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(100));
                if (!found.isEmpty()) {
                    copySome(found, consumer, producer, target);
                }
            }
        }
    }

    private static void copySome(
            ConsumerRecords<byte[], byte[]> found,
            KafkaConsumer<byte[], byte[]> consumer,
            KafkaProducer<byte[], byte[]> producer,
            String target) {
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : found) {
                producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                next.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
            producer.commitTransaction();
        } catch (ApplicationRecoverableException failure) {
            throw failure;
        } catch (KafkaException failure) {
            say("aborted after", failure);
            producer.abortTransaction();
            for (TopicPartition each : consumer.assignment()) {
                OffsetAndMetadata committed =
                        consumer.committed(java.util.Set.of(each)).get(each);
                consumer.seek(each, committed == null ? 0 : committed.offset());
            }
        }
    }

    private static void say(String what, Exception failure) {
        System.out.println(what + " " + failure.getClass().getSimpleName());
    }
}
