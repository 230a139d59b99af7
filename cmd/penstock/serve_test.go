package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/cmd/penstock/cli"
	"github.com/penstock/penstock/domain/catalog"
)

// providerEnv are variables that tests must not take from whoever runs them.
var providerEnv = []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "ABV_MAX_BODY_SIZE"}

func settingsFor(t *testing.T, folder string) cli.Settings {
	t.Helper()
	for _, name := range providerEnv {
		t.Setenv(name, "")
	}
	return cli.Settings{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Data: folder, Store: "sqlite",
		Durability: "dispatched", Profile: "penstock", LogLevel: "error"}
}

// running starts serve and returns when it has announced itself; stop ends it and returns its error.
func running(t *testing.T, s cli.Settings) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, s) }()
	announced := func() bool {
		b, err := os.ReadFile(filepath.Join(s.Data, "admin.url"))
		return err == nil && len(b) > 0
	}
	require.Eventually(t, announced, time.Minute, 10*time.Millisecond)
	return func() error { cancel(); return <-done }
}

func TestServeStopsCleanlyAndKeepsOthersOut(t *testing.T) {
	s := settingsFor(t, t.TempDir())
	stop := running(t, s)
	err := serve(context.Background(), s)
	require.ErrorIs(t, err, penstock.ErrLocked)
	require.Contains(t, errors.FlattenHints(err), "PENSTOCK_DATA")
	require.NoError(t, stop())
	require.NoFileExists(t, filepath.Join(s.Data, "admin.url"))
}

func TestServeEndsWellWhenItIsStoppedBeforeItIsReady(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := settingsFor(t, t.TempDir())
	require.NoError(t, serve(ctx, s))
	require.NoFileExists(t, filepath.Join(s.Data, "admin.url"))
	require.NoError(t, running(t, s)(), "the next start goes on")
}

func TestBusyAddressIsNamed(t *testing.T) {
	s := settingsFor(t, t.TempDir())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	s.AdminListen = taken.Addr().String()
	err = serve(context.Background(), s)
	require.ErrorContains(t, err, s.AdminListen)
	require.Contains(t, errors.FlattenHints(err), "PENSTOCK_ADMIN_LISTEN")
}

func TestAnAddressThatIsNoneIsWrongUsage(t *testing.T) {
	for _, listen := range []string{"8080", "127.0.0.1:99999"} {
		s := settingsFor(t, t.TempDir())
		s.Listen = listen
		err := serve(context.Background(), s)
		require.ErrorContains(t, err, listen[strings.LastIndexByte(listen, ':')+1:])
		require.Contains(t, errors.FlattenHints(err), "HOST:PORT")
		require.IsType(t, cli.Usage(err), err)
	}
}

// C28: a secret key that does not open the stored credentials stops the gateway before it serves.
func TestAnotherSecretKeyIsRefusedWithTheAccountsThatItDoesNotOpen(t *testing.T) {
	s := settingsFor(t, t.TempDir())
	t.Setenv("OPENAI_API_KEY", "sk-of-the-test-0123456789")
	s.SecretKey = "the first key of this place"
	require.NoError(t, running(t, s)())

	s.SecretKey = "another key of this place"
	err := serve(context.Background(), s)
	require.ErrorContains(t, err, "openai-1")
	require.Contains(t, errors.FlattenHints(err), "PENSTOCK_SECRET_KEY")
	require.NotContains(t, err.Error(), "sk-of-the-test")

	data, err := openOffline(context.Background(), s)
	require.NoError(t, err)
	unopened, err := data.Unopened(context.Background())
	require.NoError(t, err)
	require.Equal(t, []string{"openai-1"}, unopened)
	require.NoError(t, data.Close())

	s.SecretKey = "" // forgotten for once
	err = serve(context.Background(), s)
	require.ErrorContains(t, err, "there is no "+filepath.Join(s.Data, "secret.key"))
	require.ErrorContains(t, err, "openai-1")
	require.Contains(t, errors.FlattenHints(err), "PENSTOCK_SECRET_KEY")
	require.NoFileExists(t, filepath.Join(s.Data, "secret.key"), "it would be taken for the key that was in use")
}

func TestProvidersOfTheEnvironmentFillAnEmptyCatalogueOnly(t *testing.T) {
	s := settingsFor(t, t.TempDir())
	upstreams := func() []string {
		data, err := openOffline(context.Background(), s)
		require.NoError(t, err)
		defer data.Close()
		all, err := data.Upstreams(context.Background())
		require.NoError(t, err)
		var ids []string
		for _, u := range all {
			ids = append(ids, u.ID)
		}
		return ids
	}
	t.Setenv("GEMINI_API_KEY", "AIza-of-the-test-0123456789")
	require.NoError(t, running(t, s)())
	require.Equal(t, []string{"gemini"}, upstreams())

	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-test")
	require.NoError(t, running(t, s)())
	require.Equal(t, []string{"gemini"}, upstreams(), "a catalogue that is there is left alone")

	var key string
	files, err := os.ReadDir(s.Data)
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(s.Data, f.Name()))
		require.NoError(t, err)
		if strings.Contains(string(b), "AIza-of-the-test") {
			key = f.Name()
		}
	}
	require.Empty(t, key, "the credential lies in a file in plain text")
}

func TestBodyLimitIsReadFromTheEnvironment(t *testing.T) {
	for text, want := range map[string]int{"": 0, "1048576": 1 << 20} {
		n, err := bodyMax(func(string) string { return text })
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	for _, text := range []string{"100MB", "-1", "0"} {
		_, err := bodyMax(func(string) string { return text })
		require.ErrorContains(t, err, "ABV_MAX_BODY_SIZE")
	}
}

// A number that is none is wrong usage like any other setting, and nothing is begun.
func TestSizesThatAreNoneAreWrongUsage(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	serve := func(args ...string) (int, string) {
		var out strings.Builder
		p := cli.Program{Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }, Now: time.Now, Serve: serve}
		return p.Run(context.Background(), append([]string{"serve", "--data", folder, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)), out.String()
	}
	for _, text := range []string{"1GB", "-1", "0", "1.5"} {
		code, said := serve("--spool-max", text)
		require.Equal(t, 2, code, said)
		require.Contains(t, said, "spool_max: ")
	}
	t.Setenv("ABV_MAX_BODY_SIZE", "100MB")
	code, said := serve()
	require.Equal(t, 2, code, said)
	require.Contains(t, said, "ABV_MAX_BODY_SIZE: ")
	require.NoDirExists(t, folder)
}

func TestBootstrapNamesWhatItRegisters(t *testing.T) {
	b, err := newBootstrap(func(name string) string { return map[string]string{"OPENAI_API_KEY": "sk-of-the-test"}[name] })
	require.NoError(t, err)
	require.Len(t, b.wishes, 2)
	require.Equal(t, catalog.KindAccount, b.wishes[1].Kind)
	require.Equal(t, "sk-of-the-test", b.wishes[1].Credential)
	require.Empty(t, b.registered)
	require.NoError(t, b.wishes[0].Check(0))
	require.Equal(t, []string{"openai from OPENAI_API_KEY"}, b.registered)
}

// Nothing is priced unasked: a catalogue without prices says how to get some, and stays without.
func TestPricesAreOfferedWhereThereAreNone(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	offerPrices(log, true)
	require.Empty(t, out.String())
	gateway, err := penstock.Open(penstock.Config{DataDir: t.TempDir(), Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Logger: log})
	require.NoError(t, err)
	defer func() { require.NoError(t, gateway.Close(context.Background())) }()
	require.False(t, gateway.Priced())
	offerPrices(log, gateway.Priced())
	require.Contains(t, out.String(), "penstock prices import --starter")
}

func TestOnlyLoopbackAddressesArePrivate(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:8081": true, "[::1]:1": true, "127.9.9.9:1": true, "[::]:8081": false, "0.0.0.0:1": false, "10.0.0.1:1": false} {
		require.Equal(t, want, loopback(address), address)
	}
}

// A gateway that was killed leaves its announcement behind. When the next one says that it is ready, its own stands in its place.
func TestCommandsFindAGatewayAsSoonAsItSaysThatItIsReady(t *testing.T) {
	i := newInstance(t)
	for range 5 {
		i.start()
		found, err := os.ReadFile(filepath.Join(i.dir, "admin.url"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.Get("http://" + i.adminListen + "/health")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if id := answer.Header.Get(admin.InstanceHeader); id == "" || !strings.HasSuffix(string(found), "\n"+id+"\n") {
			t.Errorf("%q announced, instance %q runs", found, id)
		}
		i.signal(syscall.SIGKILL)
	}
}
