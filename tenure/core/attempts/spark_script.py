"""What the containers of a Spark job run: one script for the driver and for the executors.

It asks of the image what Spark's own scripts ask of it: bash, and Spark in SPARK_HOME (else
/opt/spark). The driver's container runs a private master and the application in client mode, its
end is the application's. An executor's container runs a worker that offers room for one executor.
It waits for the master, because a worker that knocks too early tries again only seconds later, and
repeats what its executor prints, because a worker writes that to files. ``$1`` is the application,
what follows its arguments. Owns nothing.
"""

LAUNCH = r"""set -u
umask 077
home=${SPARK_HOME:-/opt/spark}
folder=$(mktemp -d) || exit 125
export SPARK_CONF_DIR=$folder SPARK_WORKER_DIR=$folder/apps SPARK_DAEMON_MEMORY=128m
# the host's own name, which the container inherits, need not have an address there
export SPARK_LOCAL_IP=$TENURE_SPARK_HOST SPARK_LOCAL_HOSTNAME=$TENURE_SPARK_HOST
quick='-XX:+UseSerialGC -XX:TieredStopAtLevel=1'
export SPARK_DAEMON_JAVA_OPTS="$quick ${SPARK_DAEMON_JAVA_OPTS-}"
printf '%s' "$TENURE_SPARK_CONF" >"$folder/spark-defaults.conf"
printf '%s\n' 'rootLogger.level = warn' 'rootLogger.appenderRef.out.ref = out' \
    'appender.out.type = Console' 'appender.out.name = out' 'appender.out.target = SYSTEM_ERR' \
    'appender.out.layout.type = PatternLayout' \
    'appender.out.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n' >"$folder/log4j2.properties"
if [ -n "${TENURE_SPARK_PROGRAM-}" ]; then
    printf '%s' "$TENURE_SPARK_PROGRAM" >"$folder/program.py"
    shift
    set -- "$folder/program.py" "$@"
fi
unset TENURE_SPARK_CONF TENURE_SPARK_PROGRAM
master=$TENURE_SPARK_MASTER
host=${master%:*}
port=${master##*:}
children=
trap 'kill $children 2>/dev/null; wait; exit 143' TERM INT
listens() { (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; }
run() { "$home/bin/spark-class" "org.apache.spark.deploy.$@" & }
if [ "$TENURE_EXECUTOR" = 0 ]; then
    run master.Master --host "$host" --port "$port" --webui-port 0
    server=$! children=$!
    until listens; do
        kill -0 "$server" 2>/dev/null || { echo "no master on $master" >&2; exit 125; }
        sleep 0.2
    done
    "$home/bin/spark-submit" --master "spark://$master" "$@" &
    children="$! $server"
    wait $!
    code=$?
    kill "$server"
    exit "$code"
fi
until listens; do sleep 0.2; done
(
    until ls "$folder"/apps/*/*/stderr >/dev/null 2>&1; do sleep 0.5; done
    exec tail -q -n +1 -F "$folder"/apps/*/*/std* 2>/dev/null
) &
children=$!
run worker.Worker --host "$TENURE_SPARK_HOST" --port 0 --webui-port 0 \
    --cores "$TENURE_SPARK_CORES" --memory "$TENURE_SPARK_MEMORY" "spark://$master"
server=$!
children="$server $children"
wait "$server"
code=$?
kill $children 2>/dev/null
exit $((code ? code : 1))
"""
