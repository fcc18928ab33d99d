// Reads the metrics of `fxtrec daemon` with the decoder of Prometheus's client library, as text and as protocol buffers, and compares the
// native histograms of the latter with the classic ones next to them. For scripts/check-metrics.
package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"

	client "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

type families map[string]*client.MetricFamily

func die(format string, values ...interface{}) {
	fmt.Fprintf(os.Stderr, "read-metrics: "+format+"\n", values...)
	os.Exit(1)
}

// Requests a format from the daemon, and decodes the answer by its content type.
func scrape(url string, format expfmt.Format) families {
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		die("%v", err)
	}
	request.Header.Set("Accept", string(format))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		die("%v", err)
	}
	defer answer.Body.Close()
	if told := expfmt.ResponseFormat(answer.Header); told != format {
		die("asked for %q, and got %q", format, told)
	}
	decoder := expfmt.NewDecoder(answer.Body, format)
	all := families{}
	for {
		var family client.MetricFamily
		err := decoder.Decode(&family)
		if err == io.EOF {
			return all
		}
		if err != nil {
			die("%s: %v", format, err)
		}
		if all[family.GetName()] != nil {
			die("%s: %s twice", format, family.GetName())
		}
		all[family.GetName()] = &family
	}
}

// The number of samples up to each bound that is a power of two of a second.
func native(histogram *client.Histogram) map[float64]uint64 {
	if histogram.GetSchema() != 0 || histogram.ZeroThreshold == nil {
		die("not a native histogram of schema 0: %v", histogram)
	}
	below := map[float64]uint64{histogram.GetZeroThreshold(): histogram.GetZeroCount()}
	index, count, total := 0, int64(0), histogram.GetZeroCount()
	deltas := histogram.GetPositiveDelta()
	for _, span := range histogram.GetPositiveSpan() {
		index += int(span.GetOffset())
		for ; span.GetLength() > 0; *span.Length-- {
			if len(deltas) == 0 {
				die("more buckets than deltas: %v", histogram)
			}
			count += deltas[0]
			deltas = deltas[1:]
			if count <= 0 {
				die("a bucket with %d samples: %v", count, histogram)
			}
			total += uint64(count)
			below[math.Ldexp(1, index)] = total
			index++
		}
	}
	if len(deltas) != 0 || total != histogram.GetSampleCount() {
		die("%d samples in native buckets: %v", total, histogram)
	}
	return below
}

func main() {
	url := os.Args[1]
	binary, text := scrape(url, expfmt.FmtProtoDelim), scrape(url, expfmt.FmtText)
	for name, family := range binary {
		if text[name] == nil || text[name].GetType() != family.GetType() || text[name].GetHelp() != family.GetHelp() {
			die("%s differs in the text: %v", name, text[name])
		}
	}
	histograms, samples := 0, uint64(0)
	for name, family := range binary {
		for _, metric := range family.GetMetric() {
			histogram := metric.GetHistogram()
			if histogram == nil {
				continue
			}
			below := native(histogram)
			last := uint64(0)
			for _, bucket := range histogram.GetBucket() {
				// A bound without a native bucket has as many samples as the previous one.
				if count, known := below[bucket.GetUpperBound()]; known {
					last = count
				}
				if math.IsInf(bucket.GetUpperBound(), 1) {
					last = histogram.GetSampleCount()
				}
				if bucket.GetCumulativeCount() != last {
					die("%s%v: %d native samples up to %v: %v", name, metric.GetLabel(), last, bucket.GetUpperBound(), histogram)
				}
			}
			histograms++
			samples += histogram.GetSampleCount()
		}
	}
	if histograms == 0 || samples == 0 {
		die("no samples in %d histograms", histograms)
	}
	fmt.Printf("%d families, %d native histograms of %d samples, as classic ones have them\n", len(binary), histograms, samples)
}
