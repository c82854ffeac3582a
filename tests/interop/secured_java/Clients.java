import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's producer and consumer, one task after the other in one process. A line is a task: its
 * name, a file with the client's settings, and its arguments, separated by tabs. The answer is a line
 * of what was done, or "refused", the class of the exception and its message.
 */
public class Clients {
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String answer;
            try {
                answer = done(line.split("\t", -1));
            } catch (ExecutionException failed) {
                answer = refused(failed.getCause());
            } catch (Exception failed) {
                answer = refused(failed);
            }
            System.out.println(answer.replace('\n', ' '));
        }
    }

    private static String refused(Throwable failed) {
        return "refused\t" + failed.getClass().getSimpleName() + "\t" + failed.getMessage();
    }

    private static String done(String[] words) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(words[1])) {
            settings.load(file);
        }
        return switch (words[0]) {
            case "send" -> sent(settings, words[2], Integer.parseInt(words[3]));
            case "read" -> read(settings, words[2], Integer.parseInt(words[3]));
            case "log in again" -> loggedInAgain(settings, words[2], Integer.parseInt(words[3]));
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    private static String sent(Properties settings, String topic, int count) throws Exception {
        try (KafkaProducer<String, String> producer = producer(settings)) {
            List<Future<RecordMetadata>> results = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                results.add(producer.send(new ProducerRecord<>(topic, Integer.toString(number))));
            }
            for (Future<RecordMetadata> result : results) {
                result.get(2, TimeUnit.MINUTES);
            }
            return "sent\t" + results.size();
        }
    }

    private static String read(Properties settings, String topic, int count) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            while (values.size() < count) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return "read\t" + String.join(" ", values);
    }

    /** Messages go through until both have logged in again so often (KIP-368), on their connections. */
    private static String loggedInAgain(Properties settings, String topic, int times)
            throws Exception {
        int sent = 0;
        int read = 0;
        try (KafkaProducer<String, String> producer = producer(settings);
                KafkaConsumer<String, String> consumer = consumer(settings)) {
            producer.send(new ProducerRecord<>(topic, Integer.toString(sent++))).get();
            consumer.subscribe(List.of(topic));
            double opened = -1;
            while (read < sent || again(producer.metrics()) < times || again(consumer.metrics()) < times) {
                if (read == sent) {
                    // Both have opened what they need once a message is through.
                    opened = opened < 0 ? opened(producer, consumer) : opened;
                    producer.send(new ProducerRecord<>(topic, Integer.toString(sent++))).get();
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    if (!record.value().equals(Integer.toString(read++))) {
                        throw new IllegalStateException("out of order: " + record.value());
                    }
                }
            }
            return "logged in again\t" + (opened(producer, consumer) - opened);
        }
    }

    private static double opened(
            KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer) {
        return sum(producer.metrics(), "connection-creation-total")
                + sum(consumer.metrics(), "connection-creation-total");
    }

    private static double again(Map<MetricName, ? extends Metric> metrics) {
        return sum(metrics, "successful-reauthentication-total");
    }

    private static double sum(Map<MetricName, ? extends Metric> metrics, String name) {
        return metrics.entrySet().stream()
                .filter(each -> each.getKey().name().equals(name))
                .mapToDouble(each -> (Double) each.getValue().metricValue())
                .sum();
    }

    private static KafkaProducer<String, String> producer(Properties settings) {
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(Properties settings) {
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }
}
