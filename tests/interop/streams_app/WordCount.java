import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words of `lines` into `counts` in a group of the streams protocol.
 *
 * <p>Arguments: bootstrap servers, application id, folder of its state, port of its endpoint, then
 * settings as key=value. Prints its states, and for each line on its input the endpoint that has the
 * count of that word; ends with its input.
 */
public final class WordCount {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        settings.put(StreamsConfig.APPLICATION_SERVER_CONFIG, "127.0.0.1:" + args[3]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put("auto.offset.reset", "earliest");
        for (String setting : Arrays.copyOfRange(args, 4, args.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counted"))
            .toStream()
            .mapValues(String::valueOf)
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch failed = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == KafkaStreams.State.ERROR) {
                failed.countDown();
            }
        });
        streams.start();
        Thread asking = new Thread(() -> answer(streams, failed));
        asking.setDaemon(true);
        asking.start();
        failed.await();
        boolean stopped = streams.close(Duration.ofSeconds(60));
        System.out.println("stopped " + stopped);
        System.exit(0);
    }

    private static void answer(KafkaStreams streams, CountDownLatch ended) {
        Scanner input = new Scanner(System.in);
        while (input.hasNextLine()) {
            String word = input.nextLine();
            KeyQueryMetadata found =
                streams.queryMetadataForKey("counted", word, Serdes.String().serializer());
            System.out.println("asked " + word + " " + found.activeHost().port());
        }
        ended.countDown();
    }
}
