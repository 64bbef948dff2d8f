import sys, signal, time, pathlib
sys.path.insert(0, "/work/wt/run/tests")
import processes
d = pathlib.Path("/tmp/h_run/stop45"); d.mkdir(exist_ok=True)
import shutil; shutil.rmtree(d); d.mkdir()
s = processes.start(d/"out", "--config.train.num_steps=100000", "--config.checkpoint.every_steps=99999", "--config.train.eval_every_steps=99999", config=processes.toy_config(d), workdir=d/"run", each=((),), devices=1, variables=({},))
with s:
    s.reaches(d/"run", lines=3, timeout=200)
    c = s.children[0]
    c.send_signal(signal.SIGSTOP); t=time.time(); time.sleep(45); c.send_signal(signal.SIGCONT)
    n = len((d/"run/metrics.jsonl").read_text().splitlines())
    time.sleep(8)
    print("poll", c.poll(), "lines", n, len((d/"run/metrics.jsonl").read_text().splitlines()))
    c.send_signal(signal.SIGTERM)
    print(s.wait(40)); print(s.output(0)[-1500:])
