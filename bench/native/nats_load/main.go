// A JetStream load generator on the official Go client; prints one line of JSON.
//
//	nats_load publish|consume|publish-latency -url URL -count N -size BYTES -window N -rate N
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamName = "BENCH"
	subject    = "bench"
	// A run that takes longer than this is stuck.
	runLimit = 5 * time.Minute
)

type options struct {
	url    string
	count  int
	size   int
	window int
	rate   int
	warmup int
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("a mode is needed: publish, consume or publish-latency"))
	}
	var opts options
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&opts.url, "url", nats.DefaultURL, "server")
	flags.IntVar(&opts.count, "count", 1_000_000, "messages")
	flags.IntVar(&opts.size, "size", 100, "bytes in a message")
	flags.IntVar(&opts.window, "window", 10_000, "publishes waiting for their acknowledgement")
	flags.IntVar(&opts.rate, "rate", 10_000, "messages per second (publish-latency)")
	flags.IntVar(&opts.warmup, "warmup", 0, "messages sent first and not measured (publish-latency)")
	_ = flags.Parse(os.Args[2:])

	modes := map[string]func(context.Context, jetstream.JetStream, options) (map[string]any, error){
		"publish": publish, "consume": consume, "publish-latency": publishLatency,
	}
	run, known := modes[os.Args[1]]
	if !known {
		fail(fmt.Errorf("unknown mode %q", os.Args[1]))
	}
	conn, err := nats.Connect(opts.url)
	if err != nil {
		fail(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(opts.window))
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	result, err := run(ctx, js, opts)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "nats_load:", err)
	os.Exit(1)
}

// freshStream makes the stream anew: every publishing run starts from an empty log.
func freshStream(ctx context.Context, js jetstream.JetStream) error {
	_ = js.DeleteStream(ctx, streamName)
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{subject}, Storage: jetstream.FileStorage,
	})
	return err
}

func payload(size int) []byte {
	out := make([]byte, size)
	noise := uint64(0x9e3779b97f4a7c15)
	for i := range out {
		noise ^= noise << 13
		noise ^= noise >> 7
		noise ^= noise << 17
		out[i] = byte('0' + noise%64)
	}
	return out
}

func publish(ctx context.Context, js jetstream.JetStream, opts options) (map[string]any, error) {
	if err := freshStream(ctx, js); err != nil {
		return nil, err
	}
	message := payload(opts.size)
	started := time.Now()
	for n := range opts.count {
		body := append([]byte(nil), message...)
		binary.LittleEndian.PutUint64(body, uint64(n))
		if _, err := js.PublishAsync(subject, body); err != nil {
			return nil, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	seconds := time.Since(started).Seconds()
	stream, err := js.Stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	stored := stream.CachedInfo().State.Msgs
	return map[string]any{
		"messages": opts.count, "failed": opts.count - int(stored), "seconds": seconds,
	}, nil
}

func consume(ctx context.Context, js jetstream.JetStream, opts options) (map[string]any, error) {
	stream, err := js.Stream(ctx, streamName)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(opts.window))
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	damaged := 0
	for n := range opts.count {
		message, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		body := message.Data()
		if len(body) != opts.size || binary.LittleEndian.Uint64(body) != uint64(n) {
			damaged++
		}
	}
	return map[string]any{
		"messages": opts.count, "damaged": damaged, "seconds": time.Since(started).Seconds(),
	}, nil
}

// publishLatency is an open loop: a message's latency counts from when it was due.
func publishLatency(
	ctx context.Context, js jetstream.JetStream, opts options,
) (map[string]any, error) {
	if err := freshStream(ctx, js); err != nil {
		return nil, err
	}
	message := payload(opts.size)
	total := opts.warmup + opts.count
	latencies := make([]time.Duration, total)
	failed := make(chan error, total)
	var waiting sync.WaitGroup
	started := time.Now().Add(50 * time.Millisecond)
	for n := range total {
		due := started.Add(time.Duration(n) * time.Second / time.Duration(opts.rate))
		time.Sleep(time.Until(due))
		future, err := js.PublishAsync(subject, message)
		if err != nil {
			return nil, err
		}
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			select {
			case <-future.Ok():
				latencies[n] = time.Since(due)
			case err := <-future.Err():
				failed <- err
			}
		}()
	}
	waiting.Wait()
	measured := latencies[opts.warmup:]
	sort.Slice(measured, func(a, b int) bool { return measured[a] < measured[b] })
	at := func(share float64) float64 {
		index := min(int(float64(len(measured))*share), len(measured)-1)
		return float64(measured[index].Microseconds()) / 1000
	}
	return map[string]any{
		"messages": opts.count, "failed": len(failed),
		"latency_ms": map[string]float64{
			"p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999), "max": at(1),
		},
	}, nil
}
