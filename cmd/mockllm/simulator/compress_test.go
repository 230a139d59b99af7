package simulator

import (
	"bytes"
	"io"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

func decoder(t *testing.T, encoding string, r io.Reader) io.Reader {
	t.Helper()
	var out io.Reader
	var err error
	switch encoding {
	case "gzip":
		out, err = gzip.NewReader(r)
	case "deflate":
		out, err = zlib.NewReader(r)
	case "br":
		out = brotli.NewReader(r)
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		t.Cleanup(z.Close)
		out = z
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCompressedAnswersDecodeToTheSameBytes(t *testing.T) {
	s := start(t, Options{})
	for _, sh := range shapes {
		s.SetConfig(Config{})
		s.ResetStats()
		_, plain := fetch(t, s, sh)
		for _, encoding := range encodings[1:] {
			b := Healthy()
			b.Compress = encoding
			s.SetConfig(Config{Default: b})
			s.ResetStats() // the same request number, so the same ids
			res, body := fetch(t, s, sh)
			if got := res.Header.Get("Content-Encoding"); got != encoding {
				t.Errorf("%s: content encoding %q, want %q", sh.name, got, encoding)
			}
			if bytes.Equal(body, plain) {
				t.Errorf("%s %s: not compressed", sh.name, encoding)
			}
			got, err := io.ReadAll(decoder(t, encoding, bytes.NewReader(body)))
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s %s: %v, %d bytes, want %d", sh.name, encoding, err, len(got), len(plain))
			}
		}
	}
}

func TestEachChunkOfACompressedStreamCanBeDecodedWhenItArrives(t *testing.T) {
	for _, encoding := range encodings[1:] {
		s := start(t, like(func(b *Behavior) { b.Compress, b.StallRate, b.FaultAfter, b.FlushEvery = encoding, 1, 2, 1 }))
		res, err := send(t, client(t), s, shapes[1])
		if err != nil {
			t.Fatal(err)
		}
		// The stream now stalls for a minute: what is read here came through the flushes.
		d := decoder(t, encoding, res.Body)
		var got []byte
		buf := make([]byte, 512)
		for contents(string(got)) < 2 {
			n, err := d.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				t.Fatalf("%s: %v after %q", encoding, err, got)
			}
		}
		res.Body.Close()
	}
}

func TestErrorBodiesAreCompressedToo(t *testing.T) {
	s := start(t, like(func(b *Behavior) { b.Compress, b.ErrRate = "gzip", 1 }))
	res, body := fetch(t, s, shapes[0])
	got, err := io.ReadAll(decoder(t, "gzip", bytes.NewReader(body)))
	if err != nil || res.StatusCode != 500 || at(object(t, string(got)), "error", "type") != "server_error" {
		t.Errorf("%d %v %s", res.StatusCode, err, got)
	}
}
